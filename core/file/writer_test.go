package file_test

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

func TestWriteAllKeepsTheOrderOfPiecesOfEverySize(t *testing.T) {
	want := content(5, 2*file.BufferSize+4711)
	to, err := os.Create(t.TempDir() + "/text")
	require.NoError(t, err)
	defer func() { _ = to.Close() }()
	sink, err := file.Descriptor(int(to.Fd()), nil)
	require.NoError(t, err)
	require.NoError(t, file.WriteAll(sink, func(w io.Writer) error {
		for rest, step := want, 1; len(rest) > 0; step = step*3 + 1 {
			n, err := w.Write(rest[:min(step, len(rest))])
			if err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	}))
	got, err := os.ReadFile(to.Name())
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
}

func TestWriteAllEndsTheSinkWhereTheFunctionFails(t *testing.T) {
	to, err := os.Create(t.TempDir() + "/text")
	require.NoError(t, err)
	defer func() { _ = to.Close() }()
	sink, err := file.Descriptor(int(to.Fd()), nil)
	require.NoError(t, err)
	err = file.WriteAll(sink, func(io.Writer) error { return status.Errorf(status.Limit, "no more") })
	require.Equal(t, status.Limit, status.CodeOf(err))
	_, err = sink.Buffer()
	require.Error(t, err, "it was ended")
}
