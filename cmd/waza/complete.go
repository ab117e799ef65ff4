package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/runner"
)

// completionFlag ends the command lines with which a shell asks what may follow.
const completionFlag = "--generate-shell-completion"

// bareBash does for bash what its package bash-completion does, where that is absent.
const bareBash = `if ! declare -F _comp_initialize >/dev/null && ! declare -F _get_comp_words_by_ref >/dev/null; then
  _get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cword=$COMP_CWORD; }
fi

`

// withBareBash has the completion of bash work in a shell without the package bash-completion.
func withBareBash(completion *cli.Command) {
	for _, shell := range completion.Commands {
		if shell.Name != "bash" {
			continue
		}
		script := shell.Action
		shell.Action = func(ctx context.Context, c *cli.Command) error {
			fmt.Fprint(c.Root().Writer, bareBash)
			return script(ctx, c)
		}
	}
}

// completions returns the values that may follow the words of a command line: those of its last flag, runs,
// or tasks of a run. It is false where commands and flags may follow, which the library knows.
func completions(app *cli.Command, words []string) ([]string, bool) {
	command, given := app, 0 // given counts words that are no flags
	for _, word := range words {
		switch next := command.Command(word); {
		case next != nil && given == 0:
			command = next
		case !strings.HasPrefix(word, "-"):
			given++
		}
	}
	if len(words) > 0 && strings.HasPrefix(words[len(words)-1], "-") {
		name := strings.TrimLeft(words[len(words)-1], "-")
		for _, flag := range command.Flags {
			if slices.Contains(flag.Names(), name) {
				return valuesOf(flag, words)
			}
		}
		return nil, false
	}
	switch {
	case !strings.HasPrefix(command.ArgsUsage, "RUN"):
		return nil, false
	case given == 0 || strings.Contains(command.ArgsUsage, "RUN..."):
		return runs(), true
	case strings.HasPrefix(command.ArgsUsage, "RUN [TASK"):
		return tasksOfRun(words[len(words)-1]), true
	}
	return nil, false
}

// valuesOf returns the values of a flag.
func valuesOf(flag cli.Flag, words []string) ([]string, bool) {
	switch flag.Names()[0] {
	case "executor":
		field, _ := reflect.TypeFor[eval.Config]().FieldByName("Executor")
		return strictyaml.LimitsOf(field).Enum, true
	case "format":
		if flag, ok := flag.(*cli.StringFlag); ok {
			_, choices, _ := strings.Cut(flag.Usage, ": ")
			return strings.Split(strings.ReplaceAll(choices, " or ", ", "), ", "), true
		}
	case "on":
		return []string{"docker", "kubernetes"}, true
	case "against":
		return runs(), true
	case "task", "server":
		name := ""
		for _, word := range words {
			if isYAML(word) {
				name = word
			}
		}
		path, err := evalNamed(name)
		if err != nil {
			return nil, true
		}
		e, tasks, err := eval.Load(path, eval.Options{CheckScript: script.Check, CheckModelScript: checkModelScript})
		if err != nil {
			return nil, true
		}
		var names []string
		if flag.Names()[0] == "server" {
			for name := range e.Config.MCPServers {
				names = append(names, name)
			}
		} else {
			for _, task := range tasks {
				names = append(names, task.ID)
			}
		}
		return slices.Compact(slices.Sorted(slices.Values(names))), true
	}
	return nil, false
}

// runs returns the names of runs, the newest first.
func runs() []string {
	all := []string{latest}
	entries, _ := os.ReadDir(runsDir) // without it, there are none
	for _, entry := range slices.Backward(entries) {
		if entry.IsDir() {
			all = append(all, filepath.Join(runsDir, entry.Name()))
		}
	}
	return all
}

// tasksOfRun returns the tasks of a run.
func tasksOfRun(name string) (all []string) {
	dir, err := runNamed(name)
	if err != nil {
		return nil
	}
	entry, err := runner.ReadEntry(dir)
	if err != nil {
		return nil
	}
	for _, task := range entry.Tasks {
		all = append(all, task.ID)
	}
	return all
}
