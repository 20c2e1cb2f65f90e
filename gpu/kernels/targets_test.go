package kernels

import (
	"encoding/binary"
	"math"
	"testing"
)

// fatBinary is an image with entries of this kind and architecture each.
func fatBinary(entries ...[2]uint32) []byte {
	var body []byte
	for _, e := range entries {
		header := make([]byte, entryHeaderBytes)
		binary.LittleEndian.PutUint16(header, uint16(e[0]))
		binary.LittleEndian.PutUint32(header[4:], entryHeaderBytes)
		binary.LittleEndian.PutUint64(header[8:], 24)
		binary.LittleEndian.PutUint32(header[entryArchitecture:], e[1])
		body = append(append(body, header...), make([]byte, 24)...)
	}
	image := make([]byte, imageHeaderBytes)
	binary.LittleEndian.PutUint32(image, imageMagic)
	binary.LittleEndian.PutUint16(image[6:], imageHeaderBytes)
	binary.LittleEndian.PutUint64(image[8:], uint64(len(body)))
	return append(image, body...)
}

func TestTargetsOfAnImage(t *testing.T) {
	image := fatBinary([2]uint32{entryPTX, 80}, [2]uint32{entryCubin, 90}, [2]uint32{77, 5}, [2]uint32{entryCubin, 100})
	require.Equal(t, []string{"compute_80", "sm_90", "sm_100"}, Targets(image))
	require.Equal(t, []string{"compute_80", "sm_90", "sm_100"}, Targets(append(image, make([]byte, 100)...)))
	require.Equal(t, 0, len(Targets(nil)))
	require.Equal(t, 0, len(Targets(make([]byte, 1000))))
}

func TestTargetsOfDamagedImages(t *testing.T) {
	image := fatBinary([2]uint32{entryPTX, 80}, [2]uint32{entryCubin, 90})
	for length := range len(image) {
		require.True(t, len(Targets(image[:length])) <= 1, "cut to %d bytes", length)
	}
	for _, at := range []int{6, 16 + 4, 16 + 8} {
		for _, value := range []uint64{0, 1, math.MaxUint32, math.MaxUint64} {
			damaged := append([]byte{}, image...)
			binary.LittleEndian.PutUint64(damaged[at:], value)
			require.True(t, len(Targets(damaged)) <= 2)
		}
	}
}

func TestCapabilitySaysWhatTheImageHas(t *testing.T) {
	found := Capability()
	require.Equal(t, "cuda kernels", found.Name)
	require.Equal(t, len(Image()) != 0, found.Available)
	require.True(t, found.Reason != "")
}
