// Snapshots that a program has open, by handle. Closing one waits for the calls that use it; a call never waits for closing.

package snapshot

import (
	"errors"
	"sync"

	"libmmsb/core/abi"
	"libmmsb/core/handle"
	"libmmsb/core/status"
)

var handles = handle.New[*shared](abi.KindSnapshot)

// shared is a snapshot that several calls use at a time.
type shared struct {
	snapshot *Snapshot
	mutex    sync.Mutex
	idle     *sync.Cond // there are no users
	users    int
	closed   bool
}

// OpenHandle opens a file for reading and gives out its handle. Errors: Limit, those of Open.
func OpenHandle(path string, o OpenOptions) (uint64, error) {
	opened, err := Open(path, o)
	if err != nil {
		return 0, err
	}
	s := &shared{snapshot: opened}
	s.idle = sync.NewCond(&s.mutex)
	h, err := handles.Put(s)
	if err != nil {
		return 0, errors.Join(err, opened.Close())
	}
	return h, nil
}

// Use runs a call on an open snapshot. Errors: InvalidHandle, StaleHandle, those of the call.
func Use(h uint64, call func(s *Snapshot) error) error {
	s, err := handles.Get(h)
	if err != nil {
		return err
	}
	if !s.acquire() {
		return status.Errorf(status.StaleHandle, "snapshot 0x%016x was closed", h)
	}
	defer s.release()
	return call(s.snapshot)
}

// CloseHandle closes a snapshot when no call uses it any more. Errors: InvalidHandle, StaleHandle, those of Close.
func CloseHandle(h uint64) error {
	s, err := handles.Remove(h)
	if err != nil {
		return err
	}
	return s.close()
}

// CloseAllHandles closes what is open.
func CloseAllHandles() {
	for h := range handles.All() {
		_ = CloseHandle(h)
	}
}

// LiveHandles is the number of open snapshots.
func LiveHandles() uint64 { return handles.Live() }

// acquire says whether the snapshot can be used, until release.
func (s *shared) acquire() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.closed {
		s.users++
	}
	return !s.closed
}

func (s *shared) release() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.users--; s.users == 0 {
		s.idle.Broadcast()
	}
}

func (s *shared) close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.closed = true
	for s.users > 0 {
		s.idle.Wait()
	}
	return s.snapshot.Close()
}
