// Compression of chunks by zstd.

package snapshot

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// compressor makes zstd frames of chunks, one at a time, in memory that it keeps.
type compressor struct {
	encoder *zstd.Encoder
	buffer  []byte
}

func newCompressor() *compressor {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(Chunk), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return &compressor{encoder: encoder}
}

// encode gives a frame that is valid until the next call.
func (c *compressor) encode(chunk []byte) []byte {
	c.buffer = c.encoder.EncodeAll(chunk, c.buffer[:0])
	return c.buffer
}

// decoder is one for all: of its few states each call takes one.
var decoder = sync.OnceValue(func() *zstd.Decoder {
	made, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(4), zstd.WithDecoderLowmem(true),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return made
})

// Decompress fills into, as long as the extent, with what a zstd frame holds, and says whether that is exactly as much. A frame
// that holds more ends there: it cannot take more memory.
func Decompress(into, frame []byte) bool {
	got, err := decoder().DecodeAll(frame, into[:0:len(into)])
	return err == nil && len(got) == len(into)
}
