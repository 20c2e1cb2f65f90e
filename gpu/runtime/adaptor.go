// Layers that are put over others when a runtime is composed.

package runtime

import (
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// Adaptor is a layer that is put over another one when a runtime is composed. One adaptor serves one runtime.
type Adaptor interface {
	Layer
	// Over puts it over a layer.
	Over(below Layer, host Host) error
}

// over is what every adaptor begins with: it passes everything on.
type over struct {
	below Layer
	host  Host
}

func (o *over) Over(below Layer, host Host) error {
	if o.below != nil {
		return status.Errorf(status.InvalidState, "the adaptor already belongs to a runtime")
	}
	o.below, o.host = below, host
	return nil
}

func (o *over) Allocate(request Request) (Memory, error) { return o.below.Allocate(request) }
func (o *over) Free(memory Memory, stream *Stream) error { return o.below.Free(memory, stream) }
func (o *over) Released(memory Memory)                   { o.below.Released(memory) }
func (o *over) Trim(keep uint64) error                   { return o.below.Trim(keep) }
func (o *over) Close() error                             { return o.below.Close() }
func (o *over) device() driver.Device                    { return o.host.Device() }
