// What this process can do with NVIDIA's devices.

package cuda

import (
	"fmt"

	"libmmsb/core/capability"
	"libmmsb/core/status"
)

// Capabilities say whether this process has NVIDIA's devices. They open none: what differs from device to device is left to
// those.
func Capabilities() []capability.Capability {
	const ofDevices = "where a device has it: the list of devices says so"
	loaded, err := Load()
	names := [...]string{"cuda", "managed memory", "virtual memory management"}
	all := make([]capability.Capability, len(names))
	for i, name := range names {
		all[i] = capability.Capability{Name: name, Available: err == nil, Reason: ofDevices}
		if err != nil {
			all[i].Reason = status.Of(err).Text
		}
	}
	if err == nil {
		all[0].Reason = fmt.Sprintf("CUDA %s, devices: %d", version(loaded.Version()), loaded.Count())
	}
	return all
}
