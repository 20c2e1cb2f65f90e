// mmsb is the command-line tool: it shows snapshots and journals, checks them, makes new snapshots of them, lists devices, and
// replays traces of allocators on them. It needs nothing of the library.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"libmmsb/cmd/mmsb/internal/command"
	"libmmsb/core/file"
)

// version is set when the program is built.
var version = "development"

func main() {
	ctx := command.UntilSignal(context.Background(), interrupts()...)
	os.Exit(command.Tool{Version: version, FS: file.OS{}, Devices: listDevices, Replay: replayTrace, Stdout: os.Stdout,
		Stderr: os.Stderr}.Run(ctx, os.Args[1:]))
}

// interrupts are the signals that end the work, without those that the caller has us ignore, as a shell does for a job in the
// background.
func interrupts() (wanted []os.Signal) {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			wanted = append(wanted, s)
		}
	}
	return wanted
}
