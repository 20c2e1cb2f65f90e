// Deltas as pieces, of which later ones win.

package delta

import (
	"cmp"
	"slices"

	"libmmsb/native"
)

// piece is a range of a page and where in the payloads its bytes are; never empty. Every form is a list of pieces, of which a
// later one wins. A piece holds no pointer: there can be as many as bytes, and the garbage collector would have to look at each.
type piece struct {
	offset, length uint64
	from           uint64 // as if the payloads lay one after the other
}

func (p piece) end() uint64 { return p.offset + p.length }

// before and after are the parts of a piece on the two sides of an offset inside it.
func (p piece) before(offset uint64) piece { return piece{p.offset, offset - p.offset, p.from} }
func (p piece) after(offset uint64) piece {
	return piece{offset, p.end() - offset, p.from + (offset - p.offset)}
}

// payloads are those of the forms that pieces come from.
type payloads [2][]byte

func (p payloads) of(source piece) []byte {
	from, payload := source.from, p[0]
	if first := uint64(len(payload)); from >= first {
		from, payload = from-first, p[1]
	}
	return payload[from : from+source.length]
}

// reduce turns a valid form into pieces in rising order that do not overlap. base is the length of the payloads before its own.
func reduce(f *Form, base uint64) []piece { return resolve(pieces(f, base)) }

// pieces lists a form's pieces in the order in which they take effect.
func pieces(f *Form, base uint64) []piece {
	var list []piece
	next := base // where the payload of kinds without gaps goes on
	switch f.Kind {
	case DenseBytes, DenseBits, SparseBits:
		runs := f.maskRuns()
		list = make([]piece, 0, len(runs))
		for _, run := range runs {
			if f.Kind != SparseBits {
				next = base + run.Offset
			}
			list = append(list, piece{run.Offset, run.Length, next})
			next += run.Length
		}
	case Indexed:
		list = make([]piece, 0, f.Count)
		for first := uint64(0); first < f.Count; {
			after := first + 1
			for after < f.Count && f.offset(after) == f.offset(after-1)+1 {
				after++
			}
			list = append(list, piece{f.offset(first), after - first, base + first})
			first = after
		}
	case Runs:
		list = make([]piece, 0, f.Count)
		for _, run := range f.Runs {
			if run.Length > 0 {
				list = append(list, piece{run.Offset, run.Length, next})
				next += run.Length
			}
		}
	}
	return list
}

// maskRuns are the ranges of set bytes or bits of a mask.
func (f *Form) maskRuns() []Run {
	if f.Kind == DenseBytes {
		return bitRuns(native.Differences(f.Mask, nil), f.MaskLength)
	}
	return bitRuns(f.Mask, f.MaskLength)
}

// resolve turns pieces of which a later one wins into pieces in rising order that do not overlap: it goes over the page
// once and keeps the pieces that cover the place where it is in a heap, the latest on top.
func resolve(list []piece) []piece {
	if rising(list) {
		return list
	}
	type start struct{ offset, number uint64 }
	order := make([]start, len(list))
	for number, piece := range list {
		order[number] = start{piece.offset, uint64(number)}
	}
	slices.SortFunc(order, func(a, b start) int { return cmp.Compare(a.offset, b.offset) })

	result := make([]piece, 0, len(list))
	var covering latest
	for position := uint64(0); len(order) > 0 || len(covering) > 0; {
		if len(covering) == 0 {
			position = order[0].offset
		}
		for len(order) > 0 && order[0].offset == position {
			covering.push(order[0].number)
			order = order[1:]
		}
		top := list[covering[0]]
		if top.end() <= position {
			covering.pop()
			continue
		}
		end := top.end()
		if len(order) > 0 {
			end = min(end, order[0].offset)
		}
		result = append(result, top.after(position).before(end))
		position = end
	}
	return result
}

func rising(list []piece) bool {
	for number := 1; number < len(list); number++ {
		if list[number].offset < list[number-1].end() {
			return false
		}
	}
	return true
}

// latest is a heap of pieces' numbers with the largest on top.
type latest []uint64

func (h *latest) push(number uint64) {
	heap := append(*h, number)
	for at := len(heap) - 1; at > 0; {
		above := (at - 1) / 2
		if heap[above] >= heap[at] {
			break
		}
		heap[above], heap[at] = heap[at], heap[above]
		at = above
	}
	*h = heap
}

func (h *latest) pop() {
	heap := *h
	last := len(heap) - 1
	heap[0] = heap[last]
	heap = heap[:last]
	for at := 0; ; {
		largest := at
		for below := 2*at + 1; below <= 2*at+2 && below < len(heap); below++ {
			if heap[below] > heap[largest] {
				largest = below
			}
		}
		if largest == at {
			break
		}
		heap[at], heap[largest] = heap[largest], heap[at]
		at = largest
	}
	*h = heap
}

// overlay lays one list over another, both in rising order without overlaps, as is the result. It uses up the memory of
// below.
func overlay(below, above []piece) []piece {
	result := make([]piece, 0, len(below)+len(above))
	for _, top := range above {
		for len(below) > 0 && below[0].offset < top.offset {
			if below[0].end() <= top.offset {
				result = append(result, below[0])
				below = below[1:]
			} else {
				result = append(result, below[0].before(top.offset))
				below[0] = below[0].after(top.offset)
			}
		}
		for len(below) > 0 && below[0].offset < top.end() {
			if below[0].end() <= top.end() {
				below = below[1:]
			} else {
				below[0] = below[0].after(top.end())
			}
		}
		result = append(result, top)
	}
	return append(result, below...)
}
