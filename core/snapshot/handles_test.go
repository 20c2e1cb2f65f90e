package snapshot

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

const goldenWhole = "../../testdata/snapshots/version3/whole.mmsb"

func TestClosingAHandleWaitsForItsCalls(t *testing.T) {
	before := LiveHandles()
	h, err := OpenHandle(goldenWhole, OpenOptions{})
	require.NoError(t, err)
	assert.Equal(t, before+1, LiveHandles())

	inside, finish, closed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	used := make(chan error, 1)
	go func() {
		used <- Use(h, func(s *Snapshot) error {
			close(inside)
			<-finish
			_, err := s.Find(1) // the file is still open
			return err
		})
	}()
	<-inside
	go func() { closed <- CloseHandle(h) }()
	for LiveHandles() != before { // the handle is gone before its file is closed
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-closed:
		t.Fatalf("closed under a call: %v", err)
	default:
	}
	assert.Equal(t, status.StaleHandle, status.CodeOf(Use(h, func(*Snapshot) error { return nil })))
	close(finish)
	require.NoError(t, <-used)
	require.NoError(t, <-closed)
	assert.Equal(t, status.StaleHandle, status.CodeOf(CloseHandle(h)))
}

func TestACallThatComesWhileAHandleIsClosedIsRefused(t *testing.T) {
	h, err := OpenHandle(goldenWhole, OpenOptions{})
	require.NoError(t, err)
	s, err := handles.Get(h) // as a call has it that was found before the handle ended
	require.NoError(t, err)
	require.NoError(t, CloseHandle(h))
	assert.False(t, s.acquire())
}

func TestAllHandlesAreClosed(t *testing.T) {
	var open []uint64
	for range 3 {
		h, err := OpenHandle(goldenWhole, OpenOptions{})
		require.NoError(t, err)
		open = append(open, h)
	}
	_, err := OpenHandle(goldenWhole+".none", OpenOptions{})
	assert.Equal(t, status.NotFound, status.CodeOf(err))
	CloseAllHandles()
	assert.Zero(t, LiveHandles())
	for _, h := range open {
		assert.Equal(t, status.StaleHandle, status.CodeOf(Use(h, func(*Snapshot) error { return nil })))
	}
}
