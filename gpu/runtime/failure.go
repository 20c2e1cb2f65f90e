// The adaptor that asks the program what to do when memory is refused.

package runtime

import (
	"sync/atomic"

	"libmmsb/core/status"
)

// Failure is an adaptor that asks the program what to do when memory is refused: free something, and try again.
type Failure struct {
	over
	most  int
	calls atomic.Uint64
	hook  func(request Request, attempt int, err error) (again bool)
}

// NewFailure makes an adaptor that calls the hook after a refusal (Limit, OutOfMemory), on the goroutine of the call and without
// a lock held, and tries again as long as it answers true, most times at most. The attempt counts from 1.
func NewFailure(most int, hook func(request Request, attempt int, err error) (again bool)) *Failure {
	return &Failure{most: most, hook: hook}
}

// Calls is how often the hook was called.
func (f *Failure) Calls() uint64 { return f.calls.Load() }

// Allocate implements Layer.
func (f *Failure) Allocate(request Request) (Memory, error) {
	for attempt := 1; ; attempt++ {
		memory, err := f.below.Allocate(request)
		switch status.CodeOf(err) {
		case status.Limit, status.OutOfMemory:
		default:
			return memory, err
		}
		f.host.Reap()
		if attempt > f.most {
			return memory, err
		}
		f.calls.Add(1)
		if !f.hook(request, attempt, err) {
			return memory, err
		}
	}
}
