package page

import (
	"libmmsb/core/delta"
	"libmmsb/core/lasterror"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Difference is the delta that turns one page into another of the same size.
func Difference(oldPage, newPage uint64) (form *delta.Form, err error) {
	if oldPage == newPage { // one lock cannot be taken twice
		err := Read(oldPage, func(p *Page) error {
			form = &delta.Form{Kind: delta.Runs, PageID: p.ID()}
			return nil
		})
		return form, err
	}
	pages := [2]uint64{oldPage, newPage}
	if _, code := native.LockPair(&pages); code != 0 {
		return nil, lasterror.Load(code)
	}
	defer native.UnlockPair(&pages)
	a, b := native.RecordAt(native.Index(oldPage)), native.RecordAt(native.Index(newPage))
	if a.Size != b.Size {
		return nil, status.Errorf(status.Mismatch, "page 0x%016x has %d bytes, page 0x%016x has %d", oldPage, a.Size, newPage,
			b.Size)
	}
	form = delta.FromPages(native.Bytes(a.Locator, a.Size), native.Bytes(b.Locator, b.Size))
	form.PageID = IDOf(native.Index(oldPage))
	return form, nil
}
