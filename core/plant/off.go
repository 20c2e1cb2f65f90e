//go:build !plants

package plant

// Has is false: the bugs are in builds for the tests that must find them.
func Has(any) bool { return false }
