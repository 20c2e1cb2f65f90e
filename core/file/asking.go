package file

import "os"

// Asking is a file system that asks, before it opens, reads, writes or renames anything, whether it shall, and answers with the
// error that it gets. So all work on files ends there, wherever it is.
func Asking(fs FS, ask func() error) FS { return asking{fs, ask} }

type asking struct {
	FS
	ask func() error
}

func (a asking) Open(path string, flags int, mode os.FileMode) (File, error) {
	if err := a.ask(); err != nil {
		return nil, err
	}
	return a.wrap(a.FS.Open(path, flags, mode))
}

func (a asking) Rename(from, to string) error {
	if err := a.ask(); err != nil {
		return err
	}
	return a.FS.Rename(from, to)
}

func (a asking) wrap(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return askingFile{f, a}, nil
}

type askingFile struct {
	File
	fs asking
}

func (f askingFile) Pread(p []byte, offset int64) (int, error) {
	if err := f.fs.ask(); err != nil {
		return 0, err
	}
	return f.File.Pread(p, offset)
}

func (f askingFile) Pwrite(p []byte, offset int64) (int, error) {
	if err := f.fs.ask(); err != nil {
		return 0, err
	}
	return f.File.Pwrite(p, offset)
}

func (f askingFile) Reopen(flags int) (File, error) { return f.fs.wrap(f.File.Reopen(flags)) }
