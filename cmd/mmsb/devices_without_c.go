//go:build !cgo

package main

import "libmmsb/cmd/mmsb/internal/command"

// listDevices is missing: looking at devices needs C.
var listDevices command.Devices
