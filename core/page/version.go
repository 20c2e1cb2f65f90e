package page

import "sync/atomic"

// A version never comes twice for an id of a context, so that who knows id and version knows the bytes, but for those that
// were written through an address. Versions only grow while a page lives. Most pages begin with version 1, and have an id that
// no page had before. An id that comes back, because the caller chose it or a load brought it, begins an era: its first
// version is above all that any page of the process had.

// eraBits is how many changes of a page fit into an era. More of them reach into eras to come, which then begin above:
// noteVersion hears of each page that ends or is replaced, except those with an automatic id that was never loaded.
const eraBits = 16

// eras counts them, from anywhere on beyond what versions reach that begin with 1.
var eras = func() *atomic.Uint64 {
	counter := new(atomic.Uint64)
	counter.Store(1<<46 | randomOdd()>>14)
	return counter
}()

// farVersion is what no page comes to by itself: versions of a file from here on are not taken, so that what follows has room for
// 2^61 changes up to the largest version that files may have.
const farVersion = 5 << 61

// newVersion is the first one of a new era.
func newVersion() uint64 { return eras.Add(1)<<eraBits | 1 }

// noteVersion makes all eras to come begin above a version that a page has.
func noteVersion(version uint64) {
	era := version >> eraBits
	for now := eras.Load(); now < era; now = eras.Load() {
		if eras.CompareAndSwap(now, era) {
			return
		}
	}
}

// firstVersion is the version of a new page.
func firstVersion(id uint64) uint64 {
	if id == 0 {
		return 1
	}
	return newVersion()
}
