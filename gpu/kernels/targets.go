// Which devices the compiled image has code for.

package kernels

import (
	"encoding/binary"
	"fmt"
	"strings"

	"libmmsb/core/capability"
)

// What is read of a fat binary: a header, then entries with a header each.
const (
	imageMagic        = 0xba55ed50
	imageHeaderBytes  = 16 // magic, version, header size, bytes of all entries
	entryHeaderBytes  = 64 // at least: kind, version, header size, bytes of the code; at 28 the architecture
	entryArchitecture = 28
	entryPTX          = 1
	entryCubin        = 2
)

// Targets are what an image has code for: "sm_90" for a device's own, "compute_80" for what the driver compiles for newer ones.
// Where it is no fat binary, or cut short, there are none from there on.
func Targets(image []byte) []string {
	var targets []string
	for _, entry := range entries(image) {
		targets = append(targets, entry.target)
	}
	return targets
}

type entry struct {
	target string
	code   []byte
}

func entries(image []byte) []entry {
	if len(image) < imageHeaderBytes || binary.LittleEndian.Uint32(image) != imageMagic {
		return nil
	}
	header := uint64(binary.LittleEndian.Uint16(image[6:]))
	if header < imageHeaderBytes || header > uint64(len(image)) {
		return nil
	}
	rest := image[header:]
	if bytes := binary.LittleEndian.Uint64(image[8:]); bytes < uint64(len(rest)) {
		rest = rest[:bytes]
	}
	var found []entry
	for len(rest) >= entryHeaderBytes {
		kind, architecture := binary.LittleEndian.Uint16(rest), binary.LittleEndian.Uint32(rest[entryArchitecture:])
		header, bytes := uint64(binary.LittleEndian.Uint32(rest[4:])), binary.LittleEndian.Uint64(rest[8:])
		if header < entryHeaderBytes || header > uint64(len(rest)) || bytes > uint64(len(rest))-header {
			break
		}
		code := rest[header : header+bytes]
		switch kind {
		case entryPTX:
			found = append(found, entry{fmt.Sprintf("compute_%d", architecture), code})
		case entryCubin:
			found = append(found, entry{fmt.Sprintf("sm_%d", architecture), code})
		}
		rest = rest[header+bytes:]
	}
	return found
}

// Capability says whether this build has kernels for CUDA.
func Capability() capability.Capability {
	if len(Image()) == 0 {
		return capability.Capability{Name: "cuda kernels", Reason: "the library was built with MMSB_CUDA=off"}
	}
	return capability.Capability{Name: "cuda kernels", Available: true, Reason: strings.Join(Targets(Image()), " ")}
}
