// Ending a command by a signal: files and pipes that give up when the context has ended.

package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

// interrupted is why a context was ended.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return i.signal.String() }

// Interrupts are the signals that end the work, without those that the caller has us ignore, as a shell does for a job in the
// background.
func Interrupts() (wanted []os.Signal) {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			wanted = append(wanted, s)
		}
	}
	return wanted
}

// UntilSignal is a context that the first of the signals ends. The second one does what it does to a program without a handler.
func UntilSignal(parent context.Context, signals ...os.Signal) context.Context {
	if len(signals) == 0 { // Notify would take all
		return parent
	}
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 1)
	signal.Notify(received, signals...)
	go func() {
		s := <-received
		signal.Reset(signals...)
		number, _ := s.(syscall.Signal)
		cancel(interrupted{number})
	}()
	return ctx
}

func errCancelled(ctx context.Context) error {
	return status.Errorf(status.Cancelled, "cancelled: %v", context.Cause(ctx))
}

// cancellable is a file system on which nothing is read, written or renamed any more when the context has ended.
func cancellable(fs file.FS, ctx context.Context) file.FS {
	return file.Asking(fs, func() error {
		if ctx.Err() != nil {
			return errCancelled(ctx)
		}
		return nil
	})
}

// patient is a writer that lets the program end with the context, also while nobody reads the pipe that it writes to.
type patient struct {
	io.Writer
	ctx context.Context
}

func (p patient) Write(b []byte) (int, error) {
	if p.ctx.Err() != nil {
		return 0, errCancelled(p.ctx)
	}
	type result struct {
		n   int
		err error
	}
	written := make(chan result, 1)
	go func() {
		n, err := p.Writer.Write(b)
		written <- result{n, err}
	}()
	select {
	case r := <-written:
		if r.err != nil {
			return r.n, file.Failed(r.err, "cannot write the output")
		}
		return r.n, nil
	case <-p.ctx.Done():
		return 0, errCancelled(p.ctx)
	}
}
