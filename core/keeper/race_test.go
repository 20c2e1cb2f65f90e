//go:build race

package keeper

const inTests = 15
