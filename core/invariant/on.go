//go:build invariants

package invariant

import "fmt"

// Enabled tells whether this build checks what must always hold.
const Enabled = true

// leastTurn is the least number of operations from one walk to the next.
const leastTurn = 64

// Assert panics with a Failure where a condition does not hold.
func Assert(holds bool, format string, arguments ...any) {
	if !holds {
		fail(format, arguments...)
	}
}

// Check panics with a Failure where a walk found something wrong.
func Check(found error) {
	if found != nil {
		fail("%v", found)
	}
}

// Turn counts operations, so that a walk over a structure comes with every n-th of them. It has no size in other builds.
type Turn struct{ operations int }

// Comes counts an operation and says whether a walk over so many parts comes with it: the more parts, the more seldom, so that
// walks add a constant time to an operation.
func (t *Turn) Comes(parts int) bool {
	t.operations++
	if t.operations < max(leastTurn, parts) {
		return false
	}
	t.operations = 0
	return true
}

func fail(format string, arguments ...any) {
	panic(&Failure{fmt.Sprintf(format, arguments...)})
}
