// Package lineage names the states of contexts, so that files of different histories are never taken together.
//
// A lineage is one line of history; a position counts its steps. A step is a record of a journal, or all changes together that no
// journal has recorded between two states that were saved. Two different states never have the same point.
package lineage

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
)

// ID is a lineage's random id; zeros: unknown, of a file that is older than lineages.
type ID [16]byte

// String is the id as 32 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MaximumPosition is the largest that a file may have. A context goes on only from such as are not Far, so that what follows has
// room up to here, and no counter comes to its end.
const MaximumPosition uint64 = 1<<63 - 1

const farPosition = 1 << 62

// Point is a state: a position in a lineage.
type Point struct {
	Lineage  ID
	Position uint64
}

// Far says that no program has come to the position by itself.
func (p Point) Far() bool { return p.Position >= farPosition }

// Covers says whether a state lies in the past of this one: it is another position of the same lineage, or the same.
func (p Point) Covers(past Point) bool {
	return p.Lineage == past.Lineage && p.Lineage != ID{} && past.Position <= p.Position
}

// String is for messages.
func (p Point) String() string {
	if p.Lineage == (ID{}) {
		return "position " + strconv.FormatUint(p.Position, 10) + " of an unknown lineage"
	}
	return "position " + strconv.FormatUint(p.Position, 10) + " of lineage " + p.Lineage.String()
}

// Lineage is a line of history and where it begins.
type Lineage struct {
	ID     ID
	Parent Point // zeros: it begins with an empty context
}

// New begins a lineage behind a state; zeros stand for an empty context.
func New(parent Point) Lineage {
	l := Lineage{Parent: parent}
	_, _ = rand.Read(l.ID[:]) // never fails
	return l
}

// At is a state of the lineage.
func (l Lineage) At(position uint64) Point { return Point{l.ID, position} }

// Has says whether the lineage, or what its parent has before it, goes through a state.
func (l Lineage) Has(p Point) bool {
	return p.Lineage == l.ID || l.Parent.Covers(p)
}
