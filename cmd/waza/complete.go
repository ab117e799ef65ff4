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

// completionFlag is the last argument of command lines with which a shell asks for completions.
const completionFlag = "--generate-shell-completion"

// bareBash replaces the package bash-completion in a bash shell that lacks it.
const bareBash = `if ! declare -F _comp_initialize >/dev/null && ! declare -F _get_comp_words_by_ref >/dev/null; then
  _get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cword=$COMP_CWORD; }
fi

`

// withBareBash makes completion work in a bash shell without the package bash-completion.
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

// completions returns the possible next words of a command line: values of its last flag, runs, or tasks of a
// run. It returns false if commands and flags may follow, which the library completes.
func completions(app *cli.Command, words []string) ([]string, bool) {
	command := app
	var given []string  // words that are neither flags nor their values
	var before cli.Flag // the last word, if it is a flag
	for _, word := range words {
		next, value := command.Command(word), takesValue(before)
		before = flagOf(command, word)
		switch {
		case value || strings.HasPrefix(word, "-"):
		case next != nil && len(given) == 0:
			command = next
		default:
			given = append(given, word)
		}
	}
	switch {
	case before != nil:
		return valuesOf(before, words)
	case len(words) > 0 && strings.HasPrefix(words[len(words)-1], "-"):
		return nil, false
	}
	switch {
	case !strings.HasPrefix(command.ArgsUsage, "RUN"):
		return nil, false
	case len(given) == 0 || strings.Contains(command.ArgsUsage, "RUN..."):
		return runs(), true
	case len(given) == 1 && strings.HasPrefix(command.ArgsUsage, "RUN [TASK"):
		return tasksOfRun(given[0]), true
	}
	return nil, false
}

// flagOf returns the flag of a command that a word names, or nil.
func flagOf(command *cli.Command, word string) cli.Flag {
	name := strings.TrimLeft(word, "-")
	i := slices.IndexFunc(command.Flags, func(flag cli.Flag) bool { return name != word && slices.Contains(flag.Names(), name) })
	if i < 0 {
		return nil
	}
	return command.Flags[i]
}

// takesValue reports whether the word after a flag is its value.
func takesValue(flag cli.Flag) bool {
	takes, ok := flag.(cli.DocGenerationFlag)
	return ok && takes.TakesValue()
}

// valuesOf returns the possible values of a flag.
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
