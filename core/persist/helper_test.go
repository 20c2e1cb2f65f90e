package persist

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
)

// See RingBytes.
func init() { RingBytes = 256 << 10 }

// plain is a page without wishes.
var plain = page.CreateOptions{Location: abi.LocationDefault, NUMANode: -1}

func create(t *testing.T, c *page.Context, size uint64) uint64 {
	t.Helper()
	handle, err := c.Create(size, plain)
	require.NoError(t, err)
	return handle
}

// content is a page's bytes, wherever it lies.
func content(t *testing.T, handle uint64) (bytesOf []byte) {
	t.Helper()
	require.NoError(t, page.Read(handle, func(p *page.Page) error {
		if err := p.Present(); err != nil {
			return err
		}
		return p.WithBytes(func() error {
			bytesOf = bytes.Clone(p.Bytes())
			return nil
		})
	}))
	return bytesOf
}

func metadataOf(t *testing.T, handle uint64) (blob []byte) {
	t.Helper()
	require.NoError(t, page.Read(handle, func(p *page.Page) error {
		blob = bytes.Clone(p.Metadata())
		return nil
	}))
	return blob
}

func stateOf(t *testing.T, context uint64) (found *state) {
	t.Helper()
	require.NoError(t, use(context, func(s *state) error {
		found = s
		return nil
	}))
	return found
}
