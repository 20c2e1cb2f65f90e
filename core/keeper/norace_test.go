//go:build !race

package keeper

// inTests is how many random programs run in tests.
const inTests = 100
