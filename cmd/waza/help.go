package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/internal/text"
)

// Groups of the options of waza run, in order.
const (
	groupSelect  = "Select"
	groupAgent   = "Agent"
	groupSandbox = "Sandbox"
	groupGrade   = "Grade"
	groupOutput  = "Output"
)

// helpAll is the flag that shows help with all options, for commands whose --help is brief.
const helpAll = "help-all"

// briefHelp is the help of a command with many options: the most used ones, each on one line.
const briefHelp = `NAME:
   {{.FullName}} - {{.Usage}}

USAGE:
   {{.FullName}} [options] {{.ArgsUsage}}

Without an argument, it runs eval.yaml here, or all evals of the project.
{{brief .}}
{{.FullName}} --help-all shows all options, in full.
`

// seldom reports whether brief help omits an option.
func seldom(name string) bool {
	return strings.HasPrefix(name, "otel-") || strings.HasPrefix(name, "judge-") && name != "judge-model" ||
		slices.Contains([]string{"strict", "context-dir", "prepare", "infra-retries", "pins", "allow-host-hooks", "output-dir", "transcript-dir"}, name)
}

// brief lists the options of a command by group, each on one line.
func brief(c *cli.Command, columns int, describe func(cli.Flag) string) string {
	var out strings.Builder
	for _, group := range []string{groupSelect, groupAgent, groupSandbox, groupGrade, groupOutput} {
		fmt.Fprintf(&out, "\n%s\n", strings.ToUpper(group))
		for _, flag := range c.VisibleFlags() {
			if in, ok := flag.(cli.CategorizableFlag); !ok || in.GetCategory() != group || seldom(flag.Names()[0]) {
				continue
			}
			name, does, _ := strings.Cut(describe(flag), "\t")
			does, _, _ = strings.Cut(does, "; ")
			does, _, _ = strings.Cut(does, " (")
			fmt.Fprintf(&out, "%s\n", text.Fit(fmt.Sprintf("  %-27s %s", strings.TrimSpace(name), does), columns))
		}
	}
	return out.String()
}

// setHelp configures how the flag library prints help: wrapped to the given columns, or to 80 if there is no
// terminal; with the name of a repeatable flag printed only once; and help of the command even if --help
// follows an argument, which the library takes for the name of a subcommand.
func setHelp(columns int) {
	const names, least = 36, 40
	columns = max(cmp.Or(columns, 80), names+least)
	flag, show := cli.FlagStringer, cli.ShowCommandHelp
	cli.ShowCommandHelp = func(ctx context.Context, c *cli.Command, name string) error {
		switch above := c.Lineage()[1:]; {
		case c.Command(name) != nil:
			return show(ctx, c, name)
		case len(above) > 0:
			return show(ctx, above[0], c.Name)
		}
		return noCommand(ctx, c)
	}
	once := func(f cli.Flag) string {
		name, does, _ := strings.Cut(flag(f), "\t")
		name, _, _ = strings.Cut(name, " [ ")
		return name + "\t" + does
	}
	cli.FlagStringer = func(f cli.Flag) string {
		name, does, _ := strings.Cut(once(f), "\t")
		return name + "\t" + strings.Join(text.Wrap(does, columns-names), "\n   \t")
	}
	cli.HelpPrinter = func(w io.Writer, layout string, of any) {
		cli.HelpPrinterCustom(w, layout, of, map[string]any{
			"wrapAt": func() int { return columns },
			"brief":  func(c *cli.Command) string { return brief(c, columns, once) },
		})
	}
}
