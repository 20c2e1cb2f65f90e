//go:build !cgo

package main

import "libmmsb/cmd/mmsb/internal/command"

// listDevices and replayTrace are missing: devices need C.
var (
	listDevices command.Devices
	replayTrace command.Replay
)
