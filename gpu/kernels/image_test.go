//go:build mmsbcuda

package kernels

import (
	"bytes"
	"debug/elf"
	"os"
	"regexp"
	"slices"
	"testing"
)

const machineCUDA = elf.Machine(190)

func TestImageHasEveryKernelForEveryTarget(t *testing.T) {
	require.Equal(t, []string{"compute_80", "sm_100", "sm_80", "sm_90"}, slices.Sorted(slices.Values(Targets(Image()))))
	for _, entry := range entries(Image()) {
		if entry.target == "compute_80" {
			continue // it is compressed; kernels.ptx is the same
		}
		file, err := elf.NewFile(bytes.NewReader(entry.code))
		require.NoError(t, err, entry.target)
		require.Equal(t, machineCUDA, file.Machine)
		for _, name := range names {
			require.True(t, file.Section(".text."+name) != nil, "%s for %s", name, entry.target)
		}
	}
}

func TestKernelsMoveSixteenBytesAtATime(t *testing.T) {
	code, err := os.ReadFile("../../build/kernels/kernels.ptx")
	require.NoError(t, err)
	loads, stores := regexp.MustCompile(`ld\.global\.v[24]\.[a-z]`), regexp.MustCompile(`st\.global\.v[24]\.[a-z]`)
	for kernel, name := range names {
		body := regexp.MustCompile(`(?s)\.entry ` + name + `\(.*?\n}`).Find(code)
		require.True(t, len(body) != 0, name)
		if kernel == scatter {
			continue // its bytes lie anywhere
		}
		if kernel != differences && kernel != difference && kernel != checksum { // what these write is short
			require.True(t, stores.Match(body), name)
		}
		if kernel != fill {
			require.True(t, loads.Match(body), name)
		}
	}
}
