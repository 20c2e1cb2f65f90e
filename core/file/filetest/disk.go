// A disk in memory that forgets what was not synced.

package filetest

import (
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
)

// Disk is a file system in memory that promises no more than the system does: a file's content is durable as of its last
// Sync, a name as of the last Sync of its directory. All else may survive a power cut or not, in any combination.
//
// Paths are taken from the root. There are no symbolic links and no permissions, and directories cannot be renamed.
type Disk struct {
	// Block is the unit in which unsynced content survives a power cut. Set it before the first write.
	Block int

	mutex   sync.Mutex
	names   map[string]*node // the tree as it is seen; the root is "/"
	durable map[string]*node // the tree as of the last syncs
	changes []change         // of names, since those, oldest first
	inodes  uint64
}

type node struct {
	inode    uint64
	mode     os.FileMode
	data     []byte
	synced   []byte       // as of the last Sync
	unsynced map[int]bool // numbers of the blocks that were written since
	locked   *handle      // who has the lock alone
	sharing  map[*handle]bool
	links    uint64 // names in the tree as it is seen
}

// change is one step of one or two directories that happens whole or not at all.
type change struct {
	directories []string
	names       map[string]*node // nil = the name goes
}

// NewDisk is an empty disk.
func NewDisk() *Disk {
	root := &node{inode: 1, mode: os.ModeDir | 0o777, unsynced: map[int]bool{}, links: 1}
	return &Disk{
		Block:   4096,
		names:   map[string]*node{"/": root},
		durable: map[string]*node{"/": root},
		inodes:  1,
	}
}

func clean(name string) string { return path.Clean("/" + name) }

// Crash is what a power cut at this moment leaves, one of the many things that it can, chosen by the seed.
func (d *Disk) Crash(seed uint64) *Disk {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	random := rand.New(rand.NewPCG(seed, 0))
	names := maps.Clone(d.durable)
	// A journalling file system keeps changes up to some moment; others keep any.
	journalled, kept := random.IntN(2) == 0, random.IntN(len(d.changes)+1)
	for i, change := range d.changes {
		if journalled && i < kept || !journalled && random.IntN(2) == 0 {
			apply(names, change)
		}
	}
	after := &Disk{Block: d.Block, names: map[string]*node{}, inodes: d.inodes}
	copies := map[*node]*node{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if parent := after.names[path.Dir(name)]; name != "/" && (parent == nil || !parent.mode.IsDir()) {
			continue
		}
		old := names[name]
		if copies[old] == nil {
			content := old.crash(d.Block, random)
			copies[old] = &node{inode: old.inode, mode: old.mode, data: content, synced: slices.Clone(content),
				unsynced: map[int]bool{}}
		}
		copies[old].links++
		after.names[name] = copies[old]
	}
	after.durable = maps.Clone(after.names)
	return after
}

func (n *node) crash(block int, random *rand.Rand) []byte {
	size := len(n.synced)
	if len(n.data) != size {
		switch low, high := min(size, len(n.data)), max(size, len(n.data)); random.IntN(3) {
		case 0:
			size = len(n.data)
		case 1:
			size = min(high, (low/block+random.IntN((high-low)/block+2))*block)
		}
	}
	content := make([]byte, size)
	copy(content, n.synced)
	for _, at := range slices.Sorted(maps.Keys(n.unsynced)) {
		if random.IntN(2) == 0 {
			copyBlock(content, n.data, at*block, block)
		}
	}
	return content
}

// copyBlock copies a block as far as both have it; what only the target has becomes zero.
func copyBlock(to, from []byte, at, block int) {
	if at >= len(to) {
		return
	}
	to = to[at:min(at+block, len(to))]
	n := 0
	if at < len(from) {
		n = copy(to, from[at:])
	}
	clear(to[n:])
}

// Kill is what the death of all processes at this moment leaves: everything, except locks.
func (d *Disk) Kill() *Disk {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	copies := map[*node]*node{}
	copyOf := func(n *node) *node {
		if n != nil && copies[n] == nil {
			copies[n] = &node{inode: n.inode, mode: n.mode, data: slices.Clone(n.data), synced: slices.Clone(n.synced),
				unsynced: maps.Clone(n.unsynced), links: n.links}
		}
		return copies[n]
	}
	copyNames := func(names map[string]*node) map[string]*node {
		result := make(map[string]*node, len(names))
		for name, n := range names {
			result[name] = copyOf(n)
		}
		return result
	}
	after := &Disk{Block: d.Block, names: copyNames(d.names), durable: copyNames(d.durable), inodes: d.inodes}
	for _, c := range d.changes {
		after.changes = append(after.changes, change{c.directories, copyNames(c.names)})
	}
	return after
}

func apply(names map[string]*node, change change) {
	for name, n := range change.names {
		if n == nil {
			delete(names, name)
		} else {
			names[name] = n
		}
	}
}

// change applies a change to the tree as it is seen and remembers it.
func (d *Disk) change(names map[string]*node) {
	c := change{names: names}
	for name, n := range names {
		if directory := path.Dir(name); !slices.Contains(c.directories, directory) {
			c.directories = append(c.directories, directory)
		}
		if old := d.names[name]; old != nil {
			old.links--
		}
		if n != nil {
			n.links++
		}
	}
	apply(d.names, c)
	d.changes = append(d.changes, c)
}

// syncNames makes all changes of a directory durable.
func (d *Disk) syncNames(directory string) {
	d.changes = slices.DeleteFunc(d.changes, func(c change) bool {
		if !slices.Contains(c.directories, directory) {
			return false
		}
		apply(d.durable, c)
		return true
	})
}

// parent says what stops a name from being made.
func (d *Disk) parent(name string) error {
	switch parent := d.names[path.Dir(name)]; {
	case len(path.Base(name)) > 255:
		return syscall.ENAMETOOLONG
	case parent == nil:
		return syscall.ENOENT
	case !parent.mode.IsDir():
		return syscall.ENOTDIR
	}
	return nil
}

func (d *Disk) newNode(mode os.FileMode) *node {
	d.inodes++
	return &node{inode: d.inodes, mode: mode, unsynced: map[int]bool{}}
}

// Open knows O_CREAT, O_EXCL, O_TRUNC, O_DIRECTORY and how the file may be used.
func (d *Disk) Open(name string, flags int, mode os.FileMode) (file.File, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	name = clean(name)
	if err := d.parent(name); err != nil {
		return nil, err
	}
	n := d.names[name]
	switch {
	case n == nil && flags&unix.O_CREAT == 0:
		return nil, syscall.ENOENT
	case n == nil:
		n = d.newNode(mode.Perm())
		d.change(map[string]*node{name: n})
	case flags&unix.O_CREAT != 0 && flags&unix.O_EXCL != 0:
		return nil, syscall.EEXIST
	case n.mode.IsDir() && flags&unix.O_ACCMODE != unix.O_RDONLY:
		return nil, syscall.EISDIR
	case !n.mode.IsDir() && flags&unix.O_DIRECTORY != 0:
		return nil, syscall.ENOTDIR
	}
	h := &handle{disk: d, node: n, name: name, flags: flags}
	if flags&unix.O_TRUNC != 0 {
		h.resize(0)
	}
	return h, nil
}

// Stat describes what a name leads to.
func (d *Disk) Stat(name string) (file.Info, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	name = clean(name)
	if err := d.parent(name); err != nil {
		return file.Info{}, err
	}
	if n := d.names[name]; n != nil {
		return n.info(), nil
	}
	return file.Info{}, syscall.ENOENT
}

func (n *node) info() file.Info {
	return file.Info{Size: int64(len(n.data)), Mode: n.mode, Device: 1, Inode: n.inode, Links: n.links}
}

// List is the names in a directory.
func (d *Disk) List(directory string) ([]string, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	directory = clean(directory)
	if n := d.names[directory]; n == nil {
		return nil, syscall.ENOENT
	} else if !n.mode.IsDir() {
		return nil, syscall.ENOTDIR
	}
	var names []string
	for name := range d.names {
		if name != "/" && path.Dir(name) == directory {
			names = append(names, path.Base(name))
		}
	}
	return names, nil
}

// Rename is of files only.
func (d *Disk) Rename(from, to string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	from, to = clean(from), clean(to)
	n := d.names[from]
	if n == nil {
		return syscall.ENOENT
	}
	if err := d.parent(to); err != nil {
		return err
	}
	if n.mode.IsDir() {
		return syscall.ENOTSUP
	}
	if old := d.names[to]; old != nil && old.mode.IsDir() {
		return syscall.EISDIR
	}
	if from != to {
		d.change(map[string]*node{from: nil, to: n})
	}
	return nil
}

// Link is of files only.
func (d *Disk) Link(from, to string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	from, to = clean(from), clean(to)
	n := d.names[from]
	if n == nil {
		return syscall.ENOENT
	}
	if err := d.parent(to); err != nil {
		return err
	}
	switch {
	case n.mode.IsDir():
		return syscall.EPERM
	case d.names[to] != nil:
		return syscall.EEXIST
	}
	d.change(map[string]*node{to: n})
	return nil
}

// Remove is of files only.
func (d *Disk) Remove(name string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	name = clean(name)
	n := d.names[name]
	switch {
	case n == nil:
		return syscall.ENOENT
	case n.mode.IsDir():
		return syscall.EISDIR
	}
	d.change(map[string]*node{name: nil})
	return nil
}

// MakeDirectory makes one.
func (d *Disk) MakeDirectory(name string, mode os.FileMode) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	name = clean(name)
	if err := d.parent(name); err != nil {
		return err
	}
	if d.names[name] != nil {
		return syscall.EEXIST
	}
	d.change(map[string]*node{name: d.newNode(os.ModeDir | mode.Perm())})
	return nil
}

// RemoveDirectory removes an empty one.
func (d *Disk) RemoveDirectory(name string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	name = clean(name)
	n := d.names[name]
	switch {
	case n == nil:
		return syscall.ENOENT
	case !n.mode.IsDir():
		return syscall.ENOTDIR
	}
	for other := range d.names {
		if path.Dir(other) == name && other != name {
			return syscall.ENOTEMPTY
		}
	}
	d.change(map[string]*node{name: nil})
	return nil
}

// handle is an open file.
type handle struct {
	disk   *Disk
	node   *node
	name   string
	flags  int
	closed bool
}

// use takes the disk for an operation that needs the file open.
func (h *handle) use(operation func() error) error {
	h.disk.mutex.Lock()
	defer h.disk.mutex.Unlock()
	if h.closed {
		return syscall.EBADF
	}
	return operation()
}

func (h *handle) writable() bool { return h.flags&unix.O_ACCMODE != unix.O_RDONLY }

func (h *handle) Pread(p []byte, offset int64) (n int, err error) {
	err = h.use(func() error {
		if offset < int64(len(h.node.data)) {
			n = copy(p, h.node.data[offset:])
		}
		return nil
	})
	return n, err
}

func (h *handle) Pwrite(p []byte, offset int64) (n int, err error) {
	err = h.use(func() error {
		if !h.writable() {
			return syscall.EBADF
		}
		end := int(offset) + len(p)
		if end > len(h.node.data) {
			h.resize(end)
		}
		n = copy(h.node.data[offset:], p)
		h.touch(int(offset), end)
		return nil
	})
	return n, err
}

func (h *handle) touch(from, to int) {
	for block := from / h.disk.Block; block*h.disk.Block < to; block++ {
		h.node.unsynced[block] = true
	}
}

// resize leaves zeros where the file becomes longer.
func (h *handle) resize(size int) {
	old := len(h.node.data)
	if size > old {
		h.node.data = append(h.node.data, make([]byte, size-old)...)
	} else {
		h.node.data = slices.Clone(h.node.data[:size])
	}
	h.touch(min(old, size), max(old, size))
}

func (h *handle) Truncate(size int64) error {
	return h.use(func() error {
		if !h.writable() {
			return syscall.EINVAL
		}
		h.resize(int(size))
		return nil
	})
}

func (h *handle) Allocate(offset, length int64) error {
	return h.use(func() error {
		if !h.writable() {
			return syscall.EBADF
		}
		if end := int(offset + length); end > len(h.node.data) {
			h.resize(end)
		}
		return nil
	})
}

// Cached is false: there is no page cache to be faster than.
func (h *handle) Cached(int64, int64) bool { return false }

func (h *handle) Sync() error {
	return h.use(func() error {
		if h.node.mode.IsDir() {
			h.disk.syncNames(h.name)
			return nil
		}
		synced := h.node.synced
		if grown := len(h.node.data) - len(synced); grown > 0 {
			synced = append(synced, make([]byte, grown)...)
		}
		h.node.synced = synced[:len(h.node.data)]
		for block := range h.node.unsynced {
			copyBlock(h.node.synced, h.node.data, block*h.disk.Block, h.disk.Block)
		}
		clear(h.node.unsynced)
		return nil
	})
}

func (h *handle) SyncData() error { return h.Sync() }

func (h *handle) Lock() error {
	return h.use(func() error {
		others := len(h.node.sharing)
		if h.node.sharing[h] {
			others--
		}
		if h.node.locked != nil && h.node.locked != h || others > 0 {
			return syscall.EWOULDBLOCK
		}
		delete(h.node.sharing, h)
		h.node.locked = h
		return nil
	})
}

func (h *handle) LockShared() error {
	return h.use(func() error {
		if h.node.locked != nil && h.node.locked != h {
			return syscall.EWOULDBLOCK
		}
		if h.node.sharing == nil {
			h.node.sharing = make(map[*handle]bool)
		}
		h.node.locked, h.node.sharing[h] = nil, true
		return nil
	})
}

func (h *handle) unlock() {
	if h.node.locked == h {
		h.node.locked = nil
	}
	delete(h.node.sharing, h)
}

func (h *handle) Unlock() error {
	return h.use(func() error {
		h.unlock()
		return nil
	})
}

// SetDirect is refused, as on file systems without it.
func (h *handle) SetDirect(direct bool) error {
	if direct {
		return syscall.EINVAL
	}
	return nil
}

func (h *handle) Reopen(flags int) (opened file.File, err error) {
	err = h.use(func() error {
		if flags&unix.O_DIRECT != 0 {
			return syscall.EINVAL
		}
		opened = &handle{disk: h.disk, node: h.node, name: h.name, flags: flags}
		return nil
	})
	return opened, err
}

func (h *handle) Stat() (info file.Info, err error) {
	err = h.use(func() error {
		info = h.node.info()
		return nil
	})
	return info, err
}

func (h *handle) Descriptor() int { return -1 }

func (h *handle) Close() error {
	return h.use(func() error {
		h.closed = true
		h.unlock()
		return nil
	})
}
