// mmsb snapshot ls --arrays: the arrays of a state of a program, as docs/interchange.md describes their pages.

package command

import (
	"bytes"
	"math/bits"
	"strconv"
	"strings"

	"libmmsb/core/metadata"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

const (
	treeVersion = 1
	treePage    = 1
	stateKeys   = "mmsb.state/"
)

// arrayShown is an array in JSON.
type arrayShown struct {
	ID      uint64   `json:"id,string"`
	Names   []string `json:"names"`
	DType   string   `json:"dtype"`
	Shape   []uint64 `json:"shape"`
	Strides []uint64 `json:"strides"`
	Size    uint64   `json:"size"`
}

// checkTree is an error where a snapshot has no state of a program, or one of a newer version.
func checkTree(path string, s *snapshot.Snapshot) error {
	blob, err := s.Metadata(treePage)
	if err != nil && status.CodeOf(err) != status.NotFound {
		return err
	}
	said, there := metadata.Get(blob, []byte(stateKeys+"version"))
	if !there {
		return status.Errorf(status.Format, "%s has no arrays: the metadata of page %d have no %sversion", path, treePage,
			stateKeys)
	}
	numbers, err := numbersOf(path, treePage, "version", said)
	if err != nil {
		return err
	}
	if len(numbers) != 1 || numbers[0] != treeVersion {
		return status.Errorf(status.Format, "%s has a state of version %s; this tool reads version %d", path, shown(string(said)),
			treeVersion)
	}
	return nil
}

// arraysOf finds the arrays among pages.
func arraysOf(path string, s *snapshot.Snapshot, pages []snapshot.Page) ([]arrayShown, error) {
	if err := checkTree(path, s); err != nil {
		return nil, err
	}
	var found []arrayShown
	for at := range pages {
		page := &pages[at]
		blob, err := s.Metadata(page.ID)
		if err != nil {
			return nil, err
		}
		if _, there := metadata.Get(blob, []byte(stateKeys+"name")); !there {
			continue
		}
		array, err := arrayOf(path, page, blob)
		if err != nil {
			return nil, err
		}
		found = append(found, array)
	}
	return found, nil
}

func arrayOf(path string, page *snapshot.Page, blob []byte) (arrayShown, error) {
	array := arrayShown{ID: page.ID, Size: page.Size}
	for key := range metadata.Keys(blob) {
		if bytes.HasPrefix(key, []byte(stateKeys+"name")) {
			name, _ := metadata.Get(blob, key)
			array.Names = append(array.Names, string(name))
		}
	}
	dtype, there := metadata.Get(blob, []byte(stateKeys+"dtype"))
	if !there {
		return array, status.Errorf(status.Corrupt, "%s: page %d has no %sdtype in its metadata", path, page.ID, stateKeys)
	}
	array.DType = string(dtype)
	for word, numbers := range map[string]*[]uint64{"shape": &array.Shape, "strides": &array.Strides} {
		said, there := metadata.Get(blob, []byte(stateKeys+word))
		if !there {
			return array, status.Errorf(status.Corrupt, "%s: page %d has no %s%s in its metadata", path, page.ID, stateKeys,
				word)
		}
		var err error
		if *numbers, err = numbersOf(path, page.ID, word, said); err != nil {
			return array, err
		}
	}
	if len(array.Shape) != len(array.Strides) {
		return array, status.Errorf(status.Corrupt, "%s: page %d has %d numbers in shape and %d in strides", path, page.ID,
			len(array.Shape), len(array.Strides))
	}
	items, fits := product(array.Shape)
	switch {
	case !fits || items > 0 && page.Size%items != 0 || items == 0 && page.Size != 1:
		return array, status.Errorf(status.Corrupt, "%s: page %d has %d bytes, which %s of whole items cannot have", path,
			page.ID, page.Size, shapeText(array.Shape))
	case items == 0:
		array.Size = 0 // a page has at least a byte
	}
	return array, nil
}

// numbersOf reads decimal numbers with commas between them.
func numbersOf(path string, page uint64, word string, said []byte) ([]uint64, error) {
	numbers := []uint64{}
	if len(said) == 0 {
		return numbers, nil
	}
	for _, digits := range strings.Split(string(said), ",") {
		number, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || digits[0] == '+' {
			return nil, status.Errorf(status.Corrupt, "%s: %s%s of page %d is %q, not decimal numbers below 2^63", path,
				stateKeys, word, page, said[:min(len(said), 200)])
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// product multiplies the numbers of a shape, and says whether 64 bits were enough.
func product(shape []uint64) (items uint64, fits bool) {
	items, fits = 1, true
	for _, number := range shape {
		if number == 0 {
			return 0, true
		}
		var high uint64
		high, items = bits.Mul64(items, number)
		fits = fits && high == 0
	}
	return items, fits
}

func shapeText(shape []uint64) string {
	texts := make([]string, len(shape))
	for at, number := range shape {
		texts[at] = decimal(number)
	}
	return "(" + strings.Join(texts, ", ") + ")"
}

func (r *run) arraysTable(arrays []arrayShown, show sizes) {
	t := newTable(r.out, ">ID", "NAME", "DTYPE", "SHAPE", ">SIZE")
	for at := range arrays {
		array := &arrays[at]
		names := make([]string, len(array.Names))
		for number, name := range array.Names {
			names[number] = shown(name)
		}
		t.add(decimal(array.ID), strings.Join(names, ", "), shown(array.DType), shapeText(array.Shape), show.of(array.Size))
	}
	t.finish()
}

func (r *run) arraysJSON(path string, arrays []arrayShown) {
	list := newStream(r.out, struct {
		File string `json:"file"`
	}{path}, "arrays")
	for at := range arrays {
		list.add(&arrays[at])
	}
	list.end()
}
