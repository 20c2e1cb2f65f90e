package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/status"
)

// TestAllFileSystemsAnswerAlike holds the disk in memory to what the system does.
func TestAllFileSystemsAnswerAlike(t *testing.T) {
	const create = unix.O_RDWR | unix.O_CREAT
	eachFS(t, func(t *testing.T, fs file.FS, directory string) {
		in := func(name string) string { return filepath.Join(directory, name) }
		open := func(name string, flags int) error {
			f, err := fs.Open(in(name), flags, 0o666)
			if err == nil {
				require.NoError(t, f.Close())
			}
			return err
		}
		require.NoError(t, open("file", create|unix.O_EXCL))
		require.NoError(t, fs.MakeDirectory(in("folder"), 0o777))
		for _, c := range []struct {
			name string
			got  error
			want error
		}{
			{"create again", open("file", create|unix.O_EXCL), syscall.EEXIST},
			{"open what is there", open("file", create), nil},
			{"open nothing", open("none", unix.O_RDONLY), syscall.ENOENT},
			{"open in nothing", open("none/file", create), syscall.ENOENT},
			{"open in a file", open("file/file", create), syscall.ENOTDIR},
			{"write a directory", open("folder", unix.O_RDWR), syscall.EISDIR},
			{"a directory", open("folder", unix.O_RDONLY|unix.O_DIRECTORY), nil},
			{"a file as a directory", open("file", unix.O_RDONLY|unix.O_DIRECTORY), syscall.ENOTDIR},
			{"a long name", open(strings.Repeat("n", 256), create), syscall.ENAMETOOLONG},
			{"make what is there", fs.MakeDirectory(in("file"), 0o777), syscall.EEXIST},
			{"make in nothing", fs.MakeDirectory(in("none/folder"), 0o777), syscall.ENOENT},
			{"remove nothing", fs.Remove(in("none")), syscall.ENOENT},
			{"remove a directory", fs.Remove(in("folder")), syscall.EISDIR},
			{"rename nothing", fs.Rename(in("none"), in("file")), syscall.ENOENT},
			{"rename into nothing", fs.Rename(in("file"), in("none/file")), syscall.ENOENT},
			{"rename to a directory", fs.Rename(in("file"), in("folder")), syscall.EISDIR},
			{"rename to itself", fs.Rename(in("file"), in("file")), nil},
		} {
			assert.Equal(t, c.want, c.got, c.name)
		}
		for path, want := range map[string]error{"none": syscall.ENOENT, "file": syscall.ENOTDIR} {
			_, err := fs.List(in(path))
			assert.Equal(t, want, err)
		}
		_, err := fs.Stat(in("none"))
		assert.Equal(t, syscall.ENOENT, err)
		_, err = fs.Stat(in("file/none"))
		assert.Equal(t, syscall.ENOTDIR, err)
		assert.Equal(t, []string{"file", "folder"}, list(t, fs, directory))
		require.NoError(t, file.SyncDirectory(fs, directory))
		assert.Equal(t, status.NotFound, status.CodeOf(file.SyncDirectory(fs, in("none"))))

		info, err := fs.Stat(in("folder"))
		require.NoError(t, err)
		assert.True(t, info.Mode.IsDir())
		require.NoError(t, fs.Rename(in("file"), in("folder/file")))
		assert.Equal(t, []string{"folder"}, list(t, fs, directory))
		assert.Equal(t, []string{"file"}, list(t, fs, in("folder")))
	})
}

func TestAllFilesBehaveAlike(t *testing.T) {
	eachFS(t, func(t *testing.T, fs file.FS, directory string) {
		path := filepath.Join(directory, "file")
		f, err := fs.Open(path, unix.O_RDWR|unix.O_CREAT, 0o600)
		require.NoError(t, err)
		require.NoError(t, file.WriteFull(f, []byte("beginning"), 0))
		require.NoError(t, file.WriteFull(f, []byte("end"), 12))
		require.NoError(t, f.Sync())
		requireContent(t, fs, path, []byte("beginning\x00\x00\x00end"))
		require.NoError(t, f.Truncate(5))
		require.NoError(t, f.Truncate(7))
		require.NoError(t, f.SyncData())
		requireContent(t, fs, path, []byte("begin\x00\x00"))
		if err := f.Allocate(0, 10); err != syscall.EOPNOTSUPP {
			require.NoError(t, err)
			requireContent(t, fs, path, []byte("begin\x00\x00\x00\x00\x00"))
		}
		block := make([]byte, 20)
		n, err := file.ReadFull(f, block, 3)
		require.NoError(t, err)
		assert.Equal(t, "in", strings.TrimRight(string(block[:n]), "\x00"))
		n, err = f.Pread(block, 100)
		require.NoError(t, err)
		assert.Zero(t, n)

		second, err := f.Reopen(unix.O_RDONLY)
		if err != syscall.EINVAL { // the one that refuses all
			require.NoError(t, err)
			_, err = second.Pwrite([]byte("x"), 0)
			assert.Equal(t, syscall.EBADF, err)
			assert.Equal(t, syscall.EINVAL, second.Truncate(0))
			require.NoError(t, second.Close())
		}
		second, err = fs.Open(path, unix.O_RDONLY, 0)
		require.NoError(t, err)
		third, err := fs.Open(path, unix.O_RDONLY, 0)
		require.NoError(t, err)
		require.NoError(t, f.Lock())
		require.NoError(t, f.Lock(), "who has it keeps it")
		assert.Equal(t, syscall.EWOULDBLOCK, second.Lock())
		require.NoError(t, fs.Remove(path))
		info, err := second.Stat()
		require.NoError(t, err)
		assert.Zero(t, info.Links)
		assert.Equal(t, os.FileMode(0o600), info.Mode)
		first, err := f.Stat()
		require.NoError(t, err)
		assert.Equal(t, [2]uint64{first.Device, first.Inode}, [2]uint64{info.Device, info.Inode})
		require.NoError(t, f.Close())
		require.NoError(t, second.Lock())
		require.NoError(t, second.LockShared())
		require.NoError(t, third.LockShared())
		assert.Equal(t, syscall.EWOULDBLOCK, second.Lock())
		require.NoError(t, third.Unlock())
		require.NoError(t, second.Lock())
		require.NoError(t, second.Unlock())
		require.NoError(t, third.Lock())
		require.NoError(t, third.Close())
		require.NoError(t, second.Lock())
		require.NoError(t, second.Close())

		another, err := fs.Open(path, unix.O_RDWR|unix.O_CREAT, 0o600)
		require.NoError(t, err)
		require.NoError(t, file.WriteFull(another, []byte("content"), 0))
		require.NoError(t, another.Close())
		emptied, err := fs.Open(path, unix.O_RDWR|unix.O_TRUNC, 0)
		require.NoError(t, err)
		info, err = emptied.Stat()
		require.NoError(t, err)
		assert.Zero(t, info.Size)
		require.NoError(t, emptied.Close())
	})
}

func TestNoDescriptorSurvivesAnExec(t *testing.T) {
	for _, flags := range []int{unix.O_RDONLY, unix.O_RDONLY | unix.O_DIRECTORY} {
		f, err := file.OS{}.Open("/proc/self", flags|unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		flags, err := unix.FcntlInt(uintptr(f.Descriptor()), unix.F_GETFD, 0)
		require.NoError(t, err)
		assert.NotZero(t, flags&unix.FD_CLOEXEC)
		require.NoError(t, f.Close())
	}
}

func TestAPowerCutTakesWhatWasNotSyncedAndNothingElse(t *testing.T) {
	disk := filetest.NewDisk()
	require.NoError(t, disk.MakeDirectory("/folder", 0o777))
	require.NoError(t, disk.MakeDirectory("/lost", 0o777))
	f, err := disk.Open("/folder/file", unix.O_RDWR|unix.O_CREAT, 0o666)
	require.NoError(t, err)
	old, latest := content(22, 3*4096), content(23, 5*4096)
	require.NoError(t, file.WriteFull(f, old, 0))
	require.NoError(t, f.Sync())

	found := map[string]int{}
	count := func(path string) {
		clear(found)
		for seed := range uint64(200) {
			data, ok := load(t, disk.Crash(seed), path)
			what := "gone"
			switch {
			case ok && string(data) == string(old):
				what = "old"
			case ok && string(data) == string(latest):
				what = "latest"
			case ok:
				what = "mixture"
			}
			found[what]++
		}
	}
	count("/folder/file")
	assert.Positive(t, found["gone"], "the names are not synced: %v", found)
	assert.Positive(t, found["old"], "%v", found)
	assert.Zero(t, found["mixture"]+found["latest"])

	require.NoError(t, file.SyncDirectory(disk, "/folder"))
	require.NoError(t, file.SyncDirectory(disk, "/"))
	count("/folder/file")
	assert.Equal(t, map[string]int{"old": 200}, found)

	require.NoError(t, file.WriteFull(f, latest, 0))
	count("/folder/file")
	assert.Positive(t, found["mixture"], "%v", found)
	assert.Positive(t, found["latest"], "%v", found)
	assert.Zero(t, found["gone"])
	requireContent(t, disk.Kill(), "/folder/file", latest)

	require.NoError(t, f.SyncData())
	count("/folder/file")
	assert.Equal(t, map[string]int{"latest": 200}, found)

	require.NoError(t, disk.Rename("/folder/file", "/lost/file"))
	both, none := 0, 0
	for seed := range uint64(200) {
		after := disk.Crash(seed)
		_, here := load(t, after, "/folder/file")
		_, there := load(t, after, "/lost/file")
		if here && there {
			both++
		}
		if !here && !there {
			none++
		}
	}
	assert.Zero(t, both+none, "a rename happens whole or not at all")
	require.NoError(t, file.SyncDirectory(disk, "/lost"))
	count("/lost/file")
	assert.Equal(t, map[string]int{"latest": 200}, found)
}
