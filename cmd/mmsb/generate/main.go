// Command generate writes what is made of the commands of mmsb: the manual page and the completions for shells, as they lie
// under a prefix's share folder.
//
//	generate FOLDER VERSION
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"libmmsb/cmd/mmsb/internal/command"
	"libmmsb/core/file"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate FOLDER VERSION")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(folder, version string) error {
	files := map[string][]byte{filepath.Join("man", "man1", "mmsb.1"): []byte(manual(command.Root(), version))}
	for shell, path := range map[string]string{
		"bash": filepath.Join("bash-completion", "completions", "mmsb"),
		"zsh":  filepath.Join("zsh", "site-functions", "_mmsb"),
		"fish": filepath.Join("fish", "vendor_completions.d", "mmsb.fish"),
	} {
		var script, complaint bytes.Buffer
		tool := command.Tool{Version: version, FS: file.OS{}, Stdout: &script, Stderr: &complaint}
		if code := tool.Run(context.Background(), []string{"completion", shell}); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, complaint.String())
		}
		files[path] = script.Bytes()
	}
	for path, content := range files {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// page is a manual page in the language of roff.
type page struct{ strings.Builder }

var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`)

func (p *page) macro(name, argument string) {
	p.WriteString("." + name)
	if argument != "" {
		p.WriteString(` "` + strings.ReplaceAll(roff.Replace(argument), `"`, `\(dq`) + `"`)
	}
	p.WriteString("\n")
}

func (p *page) text(text string) {
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		switch line = roff.Replace(strings.TrimSpace(line)); {
		case line == "":
			p.macro("PP", "")
		case line[0] == '.':
			p.WriteString(`\&` + line + "\n")
		default:
			p.WriteString(line + "\n")
		}
	}
}

// leaves are the commands that do something.
func leaves(c *cobra.Command) []*cobra.Command {
	if !c.HasSubCommands() {
		return []*cobra.Command{c}
	}
	var all []*cobra.Command
	for _, child := range c.Commands() {
		all = append(all, leaves(child)...)
	}
	return all
}

func usage(c *cobra.Command) string {
	_, arguments, _ := strings.Cut(c.Use, " ")
	if c.HasAvailableLocalFlags() {
		arguments += " [options]"
	}
	return strings.TrimSpace(c.CommandPath() + " " + strings.TrimSpace(arguments))
}

func manual(root *cobra.Command, version string) string {
	var p page
	p.WriteString(`.TH MMSB 1 "" "libmmsb ` + version + "\" \"libmmsb\"\n")
	p.macro("SH", "NAME")
	p.text("mmsb - " + root.Short)
	p.macro("SH", "SYNOPSIS")
	commands := leaves(root)
	for _, c := range commands {
		p.macro("B", usage(c))
		p.macro("br", "")
	}
	p.macro("SH", "DESCRIPTION")
	description, _, _ := strings.Cut(root.Long, "Exit codes: ")
	p.text(description)
	p.macro("SH", "COMMANDS")
	for _, c := range commands {
		p.command(c)
	}
	p.macro("SH", "EXIT STATUS")
	p.text(command.ExitCodes)
	return p.String()
}

func (p *page) command(c *cobra.Command) {
	p.macro("SS", usage(c))
	if c.Long == "" {
		p.text(strings.ToUpper(c.Short[:1]) + c.Short[1:] + ".")
	} else {
		p.text(c.Long)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		p.macro("TP", "")
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind, _ := pflag.UnquoteUsage(f); kind != "" {
			name += " " + kind
		}
		p.macro("B", name)
		p.text(f.Usage)
	})
	if c.Example != "" {
		p.macro("PP", "")
		p.macro("nf", "")
		for _, line := range strings.Split(c.Example, "\n") {
			p.WriteString("    " + roff.Replace(strings.TrimSpace(line)) + "\n")
		}
		p.macro("fi", "")
	}
}
