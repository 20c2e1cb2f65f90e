//go:build gpu

package cuda

import (
	"testing"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/driver/conformance"

	"github.com/stretchr/testify/require"
)

// The whole suite on what this machine has. A machine without a device runs nothing; one whose driver is broken fails.
func TestGPUConformance(t *testing.T) {
	loaded, err := Load()
	if status.CodeOf(err) == status.NoDevice {
		t.Skipf("not run: %v", err)
	}
	require.NoError(t, err)
	conformance.Run(t, func(*testing.T) driver.Driver { return loaded })
}
