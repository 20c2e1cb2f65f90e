// Package command is the commands of the tool mmsb.
package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// Exit codes.
const (
	exitGood    = 0
	exitBad     = 1 // damaged or different
	exitUsage   = 2
	exitFailed  = 3 // what was asked for cannot be read or written
	exitSignals = 128
)

// ExitCodes says what the exit codes mean, to people.
const ExitCodes = `0: good. 1: damaged, or different. 2: wrong usage. 3: a file or page does not exist, or
cannot be read or written. 128 plus the number of the signal that ended it, 130 by Ctrl-C; no file is left half-written.`

// Tool is what a run of the program works with.
type Tool struct {
	Version        string
	FS             file.FS
	Devices        Devices // nil = cannot be listed
	Replay         Replay  // nil = cannot be done
	Stdout, Stderr io.Writer
}

// run is one run of the program.
type run struct {
	Tool
	ctx context.Context
	out *bufio.Writer
}

// Run does what the arguments say, and gives the exit code.
func (t Tool) Run(ctx context.Context, arguments []string) int {
	r := &run{Tool: t, ctx: ctx, out: bufio.NewWriterSize(patient{t.Stdout, ctx}, 64<<10)}
	r.FS = cancellable(t.FS, ctx)
	root := r.root()
	root.SetArgs(arguments)
	root.SetOut(r.out)
	root.SetErr(t.Stderr)
	err := root.ExecuteContext(ctx)
	var given result
	if flushed := r.out.Flush(); flushed != nil && (err == nil || errors.As(err, &given)) {
		err = flushed
	}
	return r.code(err)
}

// Root is the tree of commands, to describe it.
func Root() *cobra.Command { return (&run{}).root() }

func (r *run) root() *cobra.Command {
	root := &cobra.Command{
		Use:     "mmsb",
		Version: r.Version,
		Short:   "inspect, verify and convert snapshots, journals and stores of libmmsb",
		Long: `mmsb shows the snapshots, journals and stores that programs with libmmsb write, checks every byte of them,
compares them, extracts pages and makes new snapshots of them. It reads snapshots of versions 4 to 2, and never changes a file
that it reads; only mmsb store prune removes some. It also lists the devices that libmmsb can use, draws pictures of what programs
have on them, and replays traces of allocators.

Sizes are shown in powers of 1024 and times in UTC. Page ids are given in decimal, or in hexadecimal with 0x.

Exit codes: ` + ExitCodes,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          commands,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("mmsb {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return misused(c, err.Error()) })
	root.AddCommand(r.snapshot(), r.journal(), r.store(), r.device(), r.memory(), r.version(), r.completion())
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == helpName { // the default one takes a command that does not exist for the root
			c.RunE = func(_ *cobra.Command, arguments []string) error { return help(root, arguments) }
		}
	}
	return root
}

const helpName = "help"

// help shows the help of a command that is below another one.
func help(c *cobra.Command, path []string) error {
	found, rest, err := c.Find(path)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return unknown(found, rest[0])
	}
	found.InitDefaultHelpFlag()
	found.InitDefaultVersionFlag()
	return found.Help()
}

// unknown is the error for a command that does not exist.
func unknown(c *cobra.Command, name string) error {
	how := fmt.Sprintf("unknown command %q for %q", name, c.CommandPath())
	c.SuggestionsMinimumDistance = 2 // letters that may be wrong
	if alike := c.SuggestionsFor(name); len(alike) > 0 {
		how += `; perhaps "` + strings.Join(alike, `" or "`) + `" is meant`
	}
	return misused(c, how)
}

// commands takes no arguments: one that is left over was meant for a command.
func commands(c *cobra.Command, arguments []string) error {
	if len(arguments) > 0 {
		return unknown(c, arguments[0])
	}
	return nil
}

func misused(c *cobra.Command, how string) error {
	return fmt.Errorf("%s; see %s --help", how, c.CommandPath())
}

// takes says which arguments a command needs: their names, and how many of them at least and at most.
func takes(names string, least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, arguments []string) error {
		if len(arguments) < least || len(arguments) > most {
			return misused(c, fmt.Sprintf("%s takes %s; %d arguments given", c.CommandPath(), names, len(arguments)))
		}
		return nil
	}
}

// group is a command that is nothing without another.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	c.Args = func(c *cobra.Command, arguments []string) error {
		if len(arguments) > 0 && arguments[0] != helpName {
			return unknown(c, arguments[0])
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, arguments []string) error {
		if len(arguments) > 0 {
			return help(c, arguments[1:])
		}
		return misused(c, c.CommandPath()+" needs a command")
	}
	c.AddCommand(below...)
	return c
}

func (r *run) version() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "print the versions of the tool and of the file formats", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, _ = fmt.Fprintf(r.out,
				"mmsb %s\nsnapshots: version %d; version %d is read only\njournals: version %d\nbuilt by %s for %s/%s\n",
				r.Version, snapshot.Version, snapshot.OriginalVersion, journal.Version,
				runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		}}
}

func (r *run) completion() *cobra.Command {
	shells := map[string]func(root *cobra.Command) error{
		"bash": func(root *cobra.Command) error { return root.GenBashCompletionV2(r.out, true) },
		"fish": func(root *cobra.Command) error { return root.GenFishCompletion(r.out, true) },
		"zsh":  func(root *cobra.Command) error { return root.GenZshCompletion(r.out) },
	}
	return &cobra.Command{Use: "completion bash | fish | zsh", Short: "print a completion script for a shell",
		Long: `completion prints a script for a shell, which then completes commands, flags and files on the key Tab. The
installation of mmsb includes it.`,
		Example:   "  source <(mmsb completion bash)\n  mmsb completion fish | source",
		ValidArgs: slices.Sorted(maps.Keys(shells)),
		Args:      takes("the name of a shell", 1, 1),
		RunE: func(c *cobra.Command, arguments []string) error {
			generate, known := shells[arguments[0]]
			if !known {
				return fmt.Errorf("%q is not bash, fish or zsh", arguments[0])
			}
			return generate(c.Root())
		}}
}

// result is the exit code of a command that found a difference, or has told of damage already.
type result int

func (r result) Error() string { return fmt.Sprintf("exit code %d", int(r)) }

// code reports an error, if there is one, and gives the exit code for it.
func (r *run) code(err error) int {
	var own *status.Error
	var given result
	switch {
	case err == nil:
		return exitGood
	case errors.As(err, &given):
		return int(given)
	case errors.As(err, &own):
		if own.Code == status.Cancelled {
			var by interrupted
			if errors.As(context.Cause(r.ctx), &by) {
				return exitSignals + int(by.signal)
			}
			return exitSignals
		}
		r.complain(own)
		return codeOf(own)
	default: // of cobra, which has not begun with anything
		r.complain(status.Of(err))
		return exitUsage
	}
}

// complain prints an error.
func (r *run) complain(err error) {
	own := status.Of(err)
	more := ""
	if own.Domain == status.DomainErrno && syscall.Errno(own.Foreign) == syscall.ELOOP {
		more = "; symbolic links to files are not followed"
	}
	_, _ = fmt.Fprintf(r.Stderr, "mmsb: %s%s\n", status.Plain(own.Text), more)
}

func codeOf(err error) int {
	switch status.CodeOf(err) {
	case status.OK:
		return exitGood
	case status.Corrupt, status.Format, status.Mismatch:
		return exitBad
	case status.InvalidArgument:
		return exitUsage
	default:
		return exitFailed
	}
}

// isTerminal says whether a person looks at what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
