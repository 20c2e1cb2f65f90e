// Package environment is the environment of the program as it is now. Go's own package os has it as it was when Go started: a
// program that loads the library may have changed it since.
package environment

import "os"

var lookup = os.LookupEnv

// From says who looks variables up. It is called before anybody does.
func From(of func(name string) (value string, set bool)) { lookup = of }

// Lookup is the value of a variable, and whether it is set.
func Lookup(name string) (value string, set bool) { return lookup(name) }

// Get is the value of a variable, empty where it is not set.
func Get(name string) string {
	value, _ := lookup(name)
	return value
}

// TemporaryFolder is TMPDIR, else /tmp.
func TemporaryFolder() string {
	if folder := Get("TMPDIR"); folder != "" {
		return folder
	}
	return "/tmp"
}
