package fakecuda_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// compile compiles gpu/cuda's declarations beside CUDA's own, as the stand-in is compiled; change stands between the two.
func compile(change string) (string, error) {
	compiler := exec.Command("gcc", "-std=gnu11", "-fsyntax-only", "-isystem", "../../build/cuda-headers/nvidia/cu13/include",
		"-I../../gpu/cuda", "-x", "c", "-")
	compiler.Stdin = strings.NewReader("#include <cuda.h>\n#include <cudaTypedefs.h>\n" + change + "\n#include \"abi.h\"\n")
	output, err := compiler.CombinedOutput()
	return string(output), err
}

func TestDriftFromCUDAsHeadersDoesNotCompile(t *testing.T) {
	output, err := compile("")
	require.NoError(t, err, output)
	for _, drift := range []struct{ change, says string }{
		{"#undef cuMemAlloc\n#define cuMemAlloc cuMemFree_v2", "cuMemAlloc differs in cuda.h"},
		{"#define PFN_cuMemcpyBatchAsync_v13000 PFN_cuMemcpyBatchAsync_v12080", "cuMemcpyBatchAsync had another form then"},
		{"#define CUDA_ERROR_LAUNCH_FAILED 718", "CUDA_ERROR_LAUNCH_FAILED has another value in cuda.h"},
		{"#define CU_STREAM_NON_BLOCKING 2", "CU_STREAM_NON_BLOCKING has another value in cuda.h"},
		{"#define maxSize usage", "CUmemPoolProps has another layout"},
	} {
		output, err = compile(drift.change)
		require.Error(t, err, drift.change)
		require.Contains(t, output, drift.says)
	}
}
