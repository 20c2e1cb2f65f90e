//go:build !mmsbcuda

package kernels

// Image is the kernels' device code, a fat binary that a CUDA driver loads: empty in a build without it. It is read-only.
func Image() []byte { return nil }
