// mmsb is the command-line tool: it shows snapshots and journals, checks them, makes new snapshots of them, lists devices, and
// replays traces of allocators on them. It needs nothing of the library.
package main

import (
	"context"
	"os"

	"libmmsb/cmd/mmsb/internal/command"
	"libmmsb/core/file"
)

// version is set when the program is built.
var version = "development"

func main() {
	ctx := command.UntilSignal(context.Background(), command.Interrupts()...)
	os.Exit(command.Tool{Version: version, FS: file.OS{}, Devices: listDevices, Replay: replayTrace, Stdout: os.Stdout,
		Stderr: os.Stderr}.Run(ctx, os.Args[1:]))
}
