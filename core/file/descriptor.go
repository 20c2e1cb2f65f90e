// The sink that writes to a descriptor of the caller.

package file

import (
	"golang.org/x/sys/unix"

	"libmmsb/core/limits"
)

// descriptor is the sink of Descriptor.
type descriptor struct {
	pipeline
	fd   int
	kind uint32 // S_IFREG, S_IFIFO, …
}

// Descriptor writes to an open pipe, socket, file or device of the caller, from where it stands; it stays open. Finish syncs
// a regular file. Abort cannot take back what was written. When done is closed (nil = never), what waits for the other side
// fails with Cancelled.
func Descriptor(fd int, done <-chan struct{}) (Sink, error) {
	kind, err := kindOf(fd, unix.O_RDONLY)
	if err != nil {
		return nil, Failed(err, "cannot write to descriptor %d", fd)
	}
	d := &descriptor{fd: fd, kind: kind}
	d.done = done
	if err := d.start(1, d.write); err != nil {
		return nil, err
	}
	return d, nil
}

// kindOf is an open descriptor's S_IFREG, S_IFIFO, …; EBADF where it is open only for the wrong direction: a poll for the
// other one would never end.
func kindOf(fd int, wrong int) (uint32, error) {
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &stat) }); err != nil {
		return 0, err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil && flags&unix.O_ACCMODE == wrong {
		err = unix.EBADF
	}
	return stat.Mode & unix.S_IFMT, err
}

// write runs on a goroutine of ours, where Go's handler takes the SIGPIPE of a pipe without reader: the program sees EPIPE.
func (d *descriptor) write(bytes []byte, at int64) error {
	for len(bytes) > 0 {
		n, err := retryCount(func() (int, error) { return d.writeSome(bytes) })
		if err == unix.EAGAIN {
			if err = await(d.fd, unix.POLLOUT, d.done, at); err == nil {
				continue
			}
		}
		if err == nil && n == 0 {
			err = unix.EIO
		}
		if err != nil {
			return Failed(err, "cannot write to descriptor %d at offset %d of the stream", d.fd, at)
		}
		bytes, at = bytes[n:], at+int64(n)
	}
	return nil
}

// writeSome never waits for the other side of a pipe or socket, also where the caller's descriptor would: EAGAIN.
func (d *descriptor) writeSome(bytes []byte) (int, error) {
	switch d.kind {
	case unix.S_IFSOCK:
		return unix.SendmsgN(d.fd, bytes, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	case unix.S_IFIFO:
		n, err := unix.Pwritev2(d.fd, [][]byte{bytes}, -1, unix.RWF_NOWAIT)
		if err != unix.EOPNOTSUPP && err != unix.ENOSYS {
			return n, err
		}
		return d.writeAtomic(bytes)
	default:
		if err := limits.FileSizeHere(d.fd, uint64(len(bytes))); err != nil {
			return 0, err
		}
		return unix.Write(d.fd, bytes)
	}
}

// writeAtomic is for kernels that know no RWF_NOWAIT on pipes (before Linux 6.4): a pipe that poll calls writable has room for
// pipeAtomic bytes.
func (d *descriptor) writeAtomic(bytes []byte) (int, error) {
	if !ready(d.fd, unix.POLLOUT, 0) {
		return 0, unix.EAGAIN
	}
	return unix.Write(d.fd, bytes[:min(len(bytes), pipeAtomic)])
}

// pipeAtomic is PIPE_BUF.
const pipeAtomic = 4096

// await waits until a descriptor is ready or the work is given up.
func await(fd int, events int16, done <-chan struct{}, at int64) error {
	const lookAtDone = 50 // milliseconds
	for {
		select {
		case <-done:
			return errCancelled(at)
		default:
		}
		if ready(fd, events, lookAtDone) {
			return nil
		}
	}
}

// ready is also true where the next call will fail: that one says why.
func ready(fd int, events int16, milliseconds int) bool {
	wanted := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := unix.Poll(wanted, milliseconds)
	return n > 0 || err != nil && err != unix.EINTR
}

func (d *descriptor) Finish() error {
	if !d.end() {
		return errEnded()
	}
	if err := d.failure(); err != nil {
		return err
	}
	if d.kind == unix.S_IFREG {
		if err := osFile(d.fd).Sync(); err != nil {
			return Failed(err, "cannot sync descriptor %d after %d bytes", d.fd, d.size)
		}
	}
	return nil
}

func (d *descriptor) Abort() { d.end() }
