// Command second is another Go shared library, for the test that loads two of them into one process.
package main

// #include <stdint.h>
import "C"

import "runtime"

// secondWork makes garbage, collects it, runs goroutines, and answers the sum of 0 … n-1.
//
//export secondWork
func secondWork(n C.uint64_t) C.uint64_t {
	parts := make(chan uint64)
	for worker := range uint64(4) {
		go func() {
			sum := uint64(0)
			kept := make([][]byte, 8)
			for i := worker; i < uint64(n); i += 4 {
				kept[i%8] = make([]byte, 1000+i%1000)
				sum += i
			}
			runtime.KeepAlive(kept)
			parts <- sum
		}()
	}
	total := uint64(0)
	for range 4 {
		total += <-parts
	}
	runtime.GC()
	return C.uint64_t(total)
}

func main() {}
