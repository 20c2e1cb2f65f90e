package safego_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/log"
	"libmmsb/core/safego"
)

func TestAPanicIsLoggedAndReported(t *testing.T) {
	require.NoError(t, log.Configure(log.Error, -1))
	defer func() { require.NoError(t, log.Configure(log.Off, -1)) }()
	reasons := make(chan string, 1)
	safego.OnPanic(func(reason string) { reasons <- reason })
	defer safego.OnPanic(nil)

	for value, reason := range map[any]string{
		"planted":              "planted",
		errors.New("as error"): "as error",
		"two\nlines":           `two\nlines`,
		errors.New("\x1b[2J"):  `\x1b[2J`,
		17:                     "a panic with a value that is neither error nor text",
	} {
		safego.Go(func() { panic(value) })
		assert.Equal(t, reason, <-reasons)
		buffer := make([]byte, 1<<16)
		n, _, err := log.Read(buffer)
		require.NoError(t, err)
		assert.Contains(t, string(buffer[:n]), "safego_test.go", "the stack of the panic")
	}
}

func TestWithoutAPoisonFunctionAPanicIsCaught(t *testing.T) {
	safego.OnPanic(nil)
	require.PanicsWithValue(t, "planted", safego.Beside(func() { panic("planted") }).Wait)
}

func TestWhoWaitsForAPanicHasItToo(t *testing.T) {
	var reasons atomic.Int32
	safego.OnPanic(func(string) { reasons.Add(1) })
	defer safego.OnPanic(nil)
	done := 0
	helper := safego.Beside(func() { done++ })
	helper.Wait()
	helper.Wait()
	require.Equal(t, 1, done)
	for i := range int32(1000) { // reported before anybody goes on
		helper = safego.Beside(safego.Bound(func() { panic("planted") }))
		require.PanicsWithValue(t, "planted", helper.Wait)
		require.Equal(t, i+1, reasons.Load())
	}
}
