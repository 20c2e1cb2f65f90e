//go:build mmsboverlay

package main

// #cgo CFLAGS: -DMMSB_GO_OVERLAY
import "C"
