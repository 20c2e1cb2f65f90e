// Package main is a c-shared library with one export that does nothing: what a call from C into Go costs as Go ships.
package main

import "C"

//export bench_go_empty_call
func bench_go_empty_call(argument C.ulong) C.ulong { return argument }

func main() {}
