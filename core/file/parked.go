// Files that are open only while they are read.

package file

import "golang.org/x/sys/unix"

// Park gives a source's descriptor back: the file is opened anew for each read, and must stay at its path. Reading is IO where
// another file has taken that, NotFound where none has. A source without a path of its own stays as it is.
func Park(source Source) Source {
	o, ok := source.(*opened)
	if !ok || o.fs == nil {
		return source
	}
	info, err := o.file.Stat()
	if err != nil {
		return source
	}
	_ = o.Close() // nothing was written
	return &opened{path: o.path, size: o.size, held: o.held, fs: o.fs, file: &parked{
		fs: o.fs, path: Absolute(o.path), flags: unix.O_RDONLY | unix.O_NONBLOCK, device: info.Device, inode: info.Inode,
	}}
}

// parked is a file that is opened for each call. It is for reading: what else a File can do, it cannot.
type parked struct {
	File          // nil
	fs            FS
	path          string
	flags         int
	device, inode uint64
}

// open opens the file, if it is the same still.
func (p *parked) open() (File, error) {
	f, err := p.fs.Open(p.path, p.flags, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (info.Device != p.device || info.Inode != p.inode) {
		err = unix.ESTALE
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (p *parked) Pread(b []byte, offset int64) (int, error) {
	f, err := p.open()
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	return f.Pread(b, offset)
}

func (p *parked) Cached(offset, length int64) bool {
	f, err := p.open()
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return f.Cached(offset, length)
}

// Reopen is another parked file.
func (p *parked) Reopen(flags int) (File, error) {
	again := *p
	again.flags = flags
	f, err := again.open() // the flags may not be possible
	if err != nil {
		return nil, err
	}
	return &again, f.Close()
}

func (p *parked) Descriptor() int { return -1 }
func (p *parked) Close() error    { return nil }
