package commands

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/page"
	"libmmsb/core/status"
	"libmmsb/native"
)

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		options Options
		code    status.Code
	}{
		{Options{Workers: -1, Capacity: 1}, status.InvalidArgument},
		{Options{Workers: mostWorkers + 1, Capacity: 1}, status.InvalidArgument},
		{Options{Workers: 0, Capacity: 0}, status.InvalidSize},
		{Options{Workers: 0, Capacity: native.CommandsCapacityMost + 1}, status.InvalidSize},
	} {
		_, err := Create(c.options)
		assert.Equal(t, c.code, status.CodeOf(err), "%+v", c.options)
	}
	assert.EqualValues(t, 0, Live())
}

func TestABufferEndsOnce(t *testing.T) {
	require.NoError(t, page.Start())
	for workers := range int32(3) {
		h, err := Create(Options{Workers: workers, Capacity: 4})
		require.NoError(t, err)
		assert.EqualValues(t, 1, Live())
		require.NoError(t, Destroy(h))
		assert.Equal(t, status.StaleHandle, status.CodeOf(Destroy(h)))
		assert.EqualValues(t, 0, Live())
	}
	assert.Equal(t, status.InvalidHandle, status.CodeOf(Destroy(17)))
}

func TestAsManyBuffersAsThereMayBe(t *testing.T) {
	require.NoError(t, page.Start())
	for range native.CommandsMost {
		_, err := Create(Options{Capacity: 1})
		require.NoError(t, err)
	}
	_, err := Create(Options{Capacity: 1})
	assert.Equal(t, status.Limit, status.CodeOf(err))
	DestroyAll()
	assert.EqualValues(t, 0, Live())
	h, err := Create(Options{Workers: 1, Capacity: 1})
	require.NoError(t, err)
	require.NoError(t, Destroy(h))
	assert.EqualValues(t, 0, native.CommandsBytes())
}
