package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/internal/golden"
)

//go:generate go test . -run ^TestReference$ -update

// TestReference holds docs/cli.md and the manual page to the commands that they are made of.
func TestReference(t *testing.T) {
	s, _, _ := testState()
	golden.Check(t, filepath.Join("..", "..", "docs", "cli.md"), referenceOf(s.app()))
	golden.Check(t, filepath.Join("..", "..", "docs", "waza.1"), manualOf(s.app()))
}

// flagName is a flag as documents write it.
var flagName = regexp.MustCompile("`(--?[a-z][a-z-]*)[ `]")

// TestCompatNamesEveryFlag holds the page on upstream's evals to the flags that there are:
// it says of each what becomes of it, and of none that there is not.
func TestCompatNamesEveryFlag(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "compat.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## Flags of waza run\n")
	if !found {
		t.Fatal("compat.md has no section on the flags of waza run")
	}
	var named, are []string
	for _, match := range flagName.FindAllStringSubmatch(section, -1) {
		named = append(named, match[1])
	}
	for _, flag := range testApp(t).Command("run").Flags {
		var names []string
		for _, name := range flag.Names() {
			dashes := "--"
			if len(name) == 1 {
				dashes = "-"
			}
			names = append(names, dashes+name)
		}
		if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(named, name) }) {
			t.Errorf("compat.md does not say what becomes of %q of waza run", names)
		}
		are = append(are, names...)
	}
	for _, name := range named {
		if !slices.Contains(are, name) {
			t.Errorf("compat.md names the flag %s, which waza run does not have", name)
		}
	}
}

// shownUse is an example of a command's use.
type shownUse struct{ line, does string }

// uses are examples by command.
func uses() map[string][]shownUse {
	return map[string][]shownUse{
		"run": {
			{"waza run --isolate eval.yaml", "run all trials of an eval, each in containers of its own"},
			{"waza run --isolate eval.yaml --task '*price*' --trials 5", "five trials of some tasks"},
			{"waza run --isolate eval.yaml --dry-run", "print the plan without starting anything"},
			{"waza run --isolate eval.yaml --executor claude,codex", "run with two agents and compare them"},
			{"waza run --resume .waza/runs/20260102-030405-demo-a1b2c3", "complete a run that ended early"},
			{"waza run --isolate eval.yaml --format github-comment > comment.md", "a comment for a pull request"},
			{"waza run --isolate --on kubernetes eval.yaml", "run on a cluster"},
		},
		"init": {
			{"waza init", "write and run an eval for the server in the current directory"},
			{"waza init --name memory -- npx -y @modelcontextprotocol/server-memory", "for a package"},
			{"waza init mcp.json --dir evals --no-run", "for the servers of a client, without running it"},
		},
		"new task":   {{"waza new task refund --tool refund_order", "add a task that calls a tool"}, {"waza new task --from latest refund/1", "make a task of a trial"}},
		"new server": {{"waza new server memory -- npx -y @modelcontextprotocol/server-memory", "add a server"}},
		"new grader": {{"waza new grader polite --type prompt", "add a grader that asks a model"}},
		"check":      {{"waza check", "check the eval.yaml here"}, {"waza check eval.yaml --strict --format json", "for a pipeline; warnings fail it too"}},
		"rerun": {
			{"waza rerun latest --failed", "run failed tasks again, after a change to the eval"},
			{"waza rerun latest --task price --trials 1 --keep", "run one task and keep its containers for a look"},
		},
		"merge":        {{"waza merge shards/1 shards/2 shards/3", "make one run of three shards"}},
		"gate":         {{"waza gate latest --against main", "fail if a task that passed on the main branch fails"}, {"waza gate run --against main/results.json --max-drop 5", "let the pass rate fall by five points at most"}},
		"grade":        {{"waza grade .waza/runs/20260102-030405-demo-a1b2c3", "repeat every verdict from the evidence alone"}},
		"record":       {{"waza record latest -o cassette", "record what the servers of the latest run answered"}},
		"show":         {{"waza show latest", "list the trials of the latest run, or read its only one"}, {"waza show RUN price/2", "read one of them"}},
		"report":       {{"waza report RUN", "write the page of a run again"}, {"waza report RUN OTHER -o both.html", "two runs side by side"}, {"waza report RUN --format github-comment", "print a comment for a pull request"}},
		"compare":      {{"waza compare BASE RUN", "compare a run with an earlier one"}, {"waza compare BASE RUN --format github-comment", "the same as a comment for a pull request"}},
		"export":       {{"waza export latest --format csv -o trials.csv", "write a table of the latest run's trials"}, {"waza export RUN price/2 --format atif", "write one trial as a trajectory"}},
		"serve":        {{"waza serve", "serve the runs of the current directory"}, {"waza serve --listen 127.0.0.1:8417 runs", "serve the runs in another directory, at a fixed port"}},
		"inspect":      {{"waza inspect --isolate -- npx -y @modelcontextprotocol/server-memory", "try an untrusted server"}, {"waza inspect --isolate eval.yaml --pin", "pin what an eval's servers list"}},
		"lock":         {{"waza lock", "pin the versions of the packages of the eval here"}, {"waza lock --update", "update them"}},
		"images list":  {{"waza images list", "list images"}},
		"images build": {{"waza images build claude", "build an agent's image ahead of a run"}},
		"images save":  {{"waza images save images.tar eval.yaml", "for nodes that pull from no registry"}},
		"images push":  {{"waza images push registry.example/team eval.yaml", "have a cluster pull an eval's images"}},
		"images prune": {{"waza images prune", "remove images that this version does not use"}},
		"model-stub":   {{"waza model-stub --script model.yaml --listen 127.0.0.1:8080", "serve a scripted model"}},
		"doctor":       {{"waza doctor", "check"}, {"waza doctor --probe", "also try to escape from a sandbox"}, {"waza doctor --on kubernetes", "check a cluster, and what you may do there"}},
		"gc":           {{"waza gc", "remove what crashed runs left behind"}, {"waza gc --on kubernetes", "the same on a cluster"}},
		"schema":       {{"waza schema eval > eval.schema.json", "write a schema for an editor"}},
		"version":      {{"waza version", "print the version"}},
	}
}

// TestUsesAreRead checks that each example names a command and flags that there are, and
// that each command has one.
func TestUsesAreRead(t *testing.T) {
	all := uses()
	for _, command := range commands(testApp(t).Commands, "") {
		if len(all[command.name]) == 0 && len(command.Commands) == 0 {
			t.Errorf("docs/cli.md has no example of waza %s", command.name)
		}
		for _, use := range all[command.name] {
			line, _, _ := strings.Cut(use.line, " > ")
			if ran := parsed(t, strings.Fields(line)); ran != command.name {
				t.Errorf("%s runs %q", line, ran)
			}
		}
		delete(all, command.name)
	}
	for name := range all {
		t.Errorf("there is no command %s", name)
	}
}

func testApp(t *testing.T) *cli.Command {
	t.Helper()
	s, _, _ := testState()
	return s.app()
}

// parsed is the command that a line would run.
func parsed(t *testing.T, args []string) (ran string) {
	t.Helper()
	app := testApp(t)
	for _, c := range commands(app.Commands, "") {
		c.Action = func(context.Context, *cli.Command) error { ran = c.name; return nil }
	}
	if err := app.Run(context.Background(), args); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	return ran
}

// named is a command with those above it in its name.
type named struct {
	*cli.Command
	name string
}

// commands are all, in the order of the help, each before those below it.
func commands(all []*cli.Command, above string) (found []named) {
	for _, c := range all {
		name := strings.TrimSpace(above + " " + c.Name)
		switch {
		case c.Hidden || c.Name == "help":
		default:
			found = append(append(found, named{c, name}), commands(c.Commands, name)...)
		}
	}
	return found
}

// referenceOf is the reference of an app's commands, as Markdown.
func referenceOf(app *cli.Command) string {
	var out strings.Builder
	out.WriteString(`# Commands

waza's commands and their options. This page is generated from ` + "`waza COMMAND --help`" + `.

Options may be given before or after arguments; everything after ` + "`--`" + ` is an argument. ` + "`RUN`" + ` is
a run directory, whose path a run prints at its end, or ` + "`latest`" + `, the newest run in ` + "`.waza/runs`" + `.
` + "`waza completion bash`" + ` prints a script with which the shell completes commands and options; ` + "`zsh`" + `,
` + "`fish`" + ` and ` + "`pwsh`" + ` have one too. For bash, put ` + "`source <(waza completion bash)`" + ` into ` + "`~/.bashrc`" + `.

| command | what it does |
|---|---|
`)
	all := commands(app.Commands, "")
	for _, c := range all {
		fmt.Fprintf(&out, "| [`waza %s`](#waza-%s) | %s |\n", c.name, strings.ReplaceAll(c.name, " ", "-"), inMarkdown(c.Usage))
	}
	out.WriteString("\n## Exit codes\n\nThe first that applies:\n\n| code | when |\n|---|---|\n")
	for _, e := range []struct {
		code int
		when string
	}{
		{exitUsage, "the command line, or a file that it names, is wrong; nothing was started. With `gate` also: a task with `golden: true` did not pass"},
		{exitInfra, "a trial could not be completed for a reason other than the agent, or a report could not be written; with `doctor`: a run would not work"},
		{exitFailed, "with `run`, `rerun`, `merge` and `grade`: a trial did not pass, or a metric is below its threshold; with `gate`: the run is worse; with `check --strict`: there are warnings"},
		{exitOK, "everything else; with `run`, `rerun`, `merge` and `grade`: every trial passed"},
	} {
		fmt.Fprintf(&out, "| %d | %s |\n", e.code, e.when)
	}
	for _, c := range all {
		out.WriteString(c.section())
	}
	return out.String()
}

func (c named) section() string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n## waza %s\n\n%s.\n\n```\nwaza %s\n```\n", c.name, sentence(c.Usage), strings.Join(slices.DeleteFunc([]string{c.name, options(c), c.ArgsUsage}, isEmpty), " "))
	if c.Description != "" {
		fmt.Fprintf(&out, "\n%s\n", inMarkdown(c.Description))
	}
	if len(c.Flags) > 0 {
		out.WriteString("\n| option | what it does | default |\n|---|---|---|\n")
		for _, flag := range c.Flags {
			out.WriteString(row(flag))
		}
	}
	if len(c.Commands) > 0 {
		return out.String()
	}
	out.WriteString("\n```sh\n")
	for _, use := range uses()[c.name] {
		fmt.Fprintf(&out, "# %s\n%s\n", use.does, use.line)
	}
	out.WriteString("```\n")
	return out.String()
}

func isEmpty(s string) bool { return s == "" }

func options(c named) string {
	switch {
	case len(c.Commands) > 0:
		return "COMMAND"
	case len(c.Flags) > 0:
		return "[OPTIONS]"
	}
	return ""
}

func row(flag cli.Flag) string {
	documented := flag.(cli.DocGenerationFlag)
	usage, value := documented.GetUsage(), ""
	if documented.TakesValue() {
		value = " VALUE"
	}
	if parts := strings.SplitN(usage, "`", 3); len(parts) == 3 {
		value = " " + parts[1]
		usage = strings.Join(parts, "")
	}
	var names []string
	for _, name := range flag.Names() {
		if len(name) == 1 {
			names = append([]string{"`-" + name + "`"}, names...)
		} else {
			names = append(names, "`--"+name+value+"`")
		}
	}
	standard := ""
	if documented.TakesValue() {
		standard = strings.Trim(cmp.Or(documented.GetDefaultText(), documented.GetValue()), `"`)
	}
	return fmt.Sprintf("| %s | %s | %s |\n", strings.Join(names, ", "), inMarkdown(usage), inMarkdown(standard))
}

// mentioned is what a command's own text names: options, files, and pages of ours.
var mentioned = regexp.MustCompile(`docs/[\w-]+\.md|(?:waza [a-z]+ )?--[a-z][a-z-]*|\B-[a-z]\b|[\w.-]+\.(?:lock|json|yaml|html|xml)\b`)

// inMarkdown is a command's own text in Markdown.
func inMarkdown(s string) string {
	return mentioned.ReplaceAllStringFunc(strings.NewReplacer("<", "&lt;", "|", "\\|", "*", "\\*").Replace(s), func(what string) string {
		if page, ok := strings.CutPrefix(what, "docs/"); ok {
			return "[" + page + "](" + page + ")"
		}
		return "`" + what + "`"
	})
}

// manualOf is the manual page of an app's commands, for man.
func manualOf(app *cli.Command) string {
	var out strings.Builder
	fmt.Fprintf(&out, ".TH WAZA 1\n.SH NAME\nwaza \\- %s\n.SH SYNOPSIS\nwaza COMMAND [OPTIONS] [ARGUMENTS]\n.SH COMMANDS\n", inRoff(app.Usage))
	for _, c := range commands(app.Commands, "") {
		fmt.Fprintf(&out, ".SS %s\n%s.\n", inRoff(strings.Join(slices.DeleteFunc([]string{"waza " + c.name, options(c), c.ArgsUsage}, isEmpty), " ")), inRoff(c.Usage))
		if c.Description != "" {
			fmt.Fprintf(&out, ".PP\n%s\n", inRoff(c.Description))
		}
		for _, flag := range c.Flags {
			cells := strings.Split(strings.Trim(row(flag), "| \n"), " | ")
			text := cells[1]
			if len(cells) > 2 {
				text += " (default: " + cells[2] + ")"
			}
			fmt.Fprintf(&out, ".TP\n%s\n%s\n", inRoff(plain(cells[0])), inRoff(plain(text)))
		}
	}
	return out.String()
}

// pageLink is a link in Markdown.
var pageLink = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// plain is Markdown as text.
func plain(markdown string) string {
	return strings.NewReplacer("`", "", "&lt;", "<", `\|`, "|", `\*`, "*").Replace(pageLink.ReplaceAllString(markdown, "$1"))
}

// inRoff is text in roff, which takes lines that begin with a dot or a quote for requests.
func inRoff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n\n", "\n.PP\n\\&", "\n", "\n\\&").Replace(s)
	return `\&` + s
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + inMarkdown(s[1:]) }
