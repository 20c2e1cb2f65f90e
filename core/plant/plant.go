// Package plant lets a bug be planted where a test must find it, in builds with the tag plants. Others have nothing of it: the
// question is a constant there, and what hangs on it is left out.
//
// A package that has bugs to plant numbers them in a type of its own.
package plant
