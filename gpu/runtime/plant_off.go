//go:build !plants

package runtime

// plant is false: the bugs are in builds for the tests that must find them.
func plant(bug) bool { return false }
