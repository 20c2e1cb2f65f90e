package persist

import (
	"slices"
	"sync"
	"unsafe"

	"libmmsb/core/journal"
	"libmmsb/core/lineage"
	"libmmsb/core/page"
	"libmmsb/native"
)

// history is which state a context has: core/lineage says what that means.
type history struct {
	sync.Mutex
	line  lineage.Lineage // of what comes
	names []lineage.Point // of the last state that has a name; the first says its position
	// before is the state that its lineage begins behind.
	before lineage.Point
	// known tells that state's fingerprint. Beside it no save or load runs.
	known func() lineage.Fingerprint
	// chosen: a load was asked for the state that this one comes from, and no journal has been opened since.
	chosen bool
}

// begin is the history of a new context.
func (h *history) begin() {
	h.line = lineage.New(lineage.Point{})
	h.names = []lineage.Point{h.line.At(0)}
	h.known = func() lineage.Fingerprint { return 0 }
}

func (h *history) position() uint64 { return h.names[0].Position }

// hasName says whether a point is the state's.
func (h *history) hasName(point lineage.Point) bool {
	h.Lock()
	defer h.Unlock()
	return slices.Contains(h.names, point)
}

// next is the name of a state behind the last one that has a name.
func (h *history) next() (lineage.Lineage, uint64) {
	h.Lock()
	defer h.Unlock()
	return h.line, h.position() + 1
}

// is gives the state a name.
func (h *history) is(line lineage.Lineage, position uint64, print func() lineage.Fingerprint) {
	h.Lock()
	defer h.Unlock()
	h.line, h.names, h.before, h.known = line, []lineage.Point{line.At(position)}, line.Parent, print
}

// comesFrom is is for a state that others go on from as well: what was loaded, and what the end of a journal has. What follows in
// this context is a lineage of its own.
func (h *history) comesFrom(line lineage.Lineage, position uint64, print lineage.Fingerprint) {
	h.Lock()
	defer h.Unlock()
	from := line.At(position)
	parent := from
	if from.Lineage == (lineage.ID{}) {
		parent = lineage.Point{}
	}
	h.line, h.names, h.before = lineage.New(parent), []lineage.Point{from}, line.Parent
	h.known = func() lineage.Fingerprint { return print }
}

// step gives the state a name of its own, which no journal ends with.
func (h *history) step() {
	h.Lock()
	defer h.Unlock()
	h.names, h.before = []lineage.Point{h.line.At(h.position() + 1)}, h.line.Parent
}

// goesOnIn says in which lineage the state goes on, after a journal was asked.
func (h *history) goesOnIn(line lineage.Lineage) {
	h.Lock()
	defer h.Unlock()
	h.line = line
}

// kept is how to make the history again what it is now.
func (h *history) kept() (restore func()) {
	h.Lock()
	defer h.Unlock()
	line, names, before, known := h.line, h.names, h.before, h.known
	return func() {
		h.Lock()
		defer h.Unlock()
		h.line, h.names, h.before, h.known = line, names, before, known
	}
}

func (h *history) setChosen(chosen bool) {
	h.Lock()
	defer h.Unlock()
	h.chosen = chosen
}

// stateOf is the still state for a journal, with a name: of its own where calls have changed pages since the last one.
func (h *history) stateOf(still *page.Still) journal.State {
	h.Lock()
	defer h.Unlock()
	print, pages := still.Fingerprint()
	if print != h.known() {
		h.names, h.before = []lineage.Point{h.line.At(h.position() + 1)}, h.line.Parent
		h.known = func() lineage.Fingerprint { return print }
	}
	return journal.State{Names: h.names, GoesOn: h.line, Before: h.before, Empty: h.position() == 0, Pages: pages,
		Chosen: h.chosen}
}

// savedPrint is the fingerprint of what the last save or load of these leaves has recorded, with the dependencies of that state.
func savedPrint(leaves []uint32, edges [][2]uint64) (print lineage.Fingerprint) {
	saved := native.LastSaved()
	for _, leaf := range leaves {
		if saved[leaf] == nil {
			continue
		}
		for _, s := range unsafe.Slice(saved[leaf], native.LeafRecords) {
			if s.Generation != 0 {
				print.Page(s.ID, s.Version, s.Size)
			}
		}
	}
	for _, edge := range edges {
		print.Edge(edge[0], edge[1])
	}
	return print
}
