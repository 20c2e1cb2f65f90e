// Package invariant checks what must always hold in a build with the tag `invariants`: MMSB__ASSERT for Go. In other builds it is
// empty.
//
// Go evaluates the arguments of a call that does nothing. Where that costs, or where numbers are read only for an assertion, the
// caller writes
//
//	if invariant.Enabled {
//		invariant.Assert(used <= limit, "%d units are used, the limit is %d", used, limit)
//	}
//
// which compiles to nothing in other builds. A condition must have no effect.
package invariant

// Failure is what a broken invariant panics with. No guard keeps it inside the library: Rethrow lets it end the process.
type Failure struct{ Text string }

// Error is the text, with the numbers.
func (f *Failure) Error() string { return "invariant broken: " + f.Text }

// Rethrow panics again with a value that recover returned where that is a Failure. Who recovers from any panic calls it first,
// from the deferred function: the runtime then prints the text with the stack of the assertion and ends the process.
func Rethrow(recovered any) {
	if failure, broken := recovered.(*Failure); broken {
		panic(failure)
	}
}
