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

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
)

// foundFile is an eval, a client's file or source that a command found because the command line does not name
// its path. It gets no data of this machine unless the user allows that.
type foundFile struct {
	file    string // for messages; empty for the path of the eval
	asks    bool   // remote servers need permission for connections too
	name    string // command line that names the file, with %s for its path; empty if there is none
	allowed []string
	given   map[string]string // variables with a value in the file itself
	granted map[string]bool   // what the user was told about, or has allowed
}

func allowEnvFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "allow-env", Usage: "Give variable `NAME` to a file that was not named (of your environment, to one that was found; repeatable)", Action: func(_ context.Context, _ *cli.Command, names []string) error {
		for _, name := range names {
			if !mcpconfig.IsVariable(name) {
				return usage("--allow-env: %q is not the name of a variable", text.Inert(name))
			}
		}
		return nil
	}}
}

// withFound returns a copy of s for a file that c found.
func withFound(s *state, c *cli.Command, f foundFile) *state {
	f.allowed, f.granted = c.StringSlice("allow-env"), map[string]bool{}
	own := *s
	own.found = &f
	return &own
}

// withEval returns s for the evals that an argument of c refers to. name is a command line that names one of
// them.
func withEval(s *state, c *cli.Command, argument, name string) *state {
	if isNamed(argument) && !c.Bool("discover") {
		return s
	}
	return withFound(s, c, foundFile{name: name})
}

// withRun returns s for the eval of a run. The run's record names the eval, but if the run is [latest] the
// eval counts as found, unless an argument of c names it.
func withRun(s *state, c *cli.Command, run, argument string) *state {
	if argument == "" && run != latest || isNamed(argument) {
		return s
	}
	name := "waza rerun latest %s"
	if c.IsSet("resume") {
		name = "waza run --resume latest %s"
	}
	return withFound(s, c, foundFile{name: name})
}

// isNamed reports whether an argument is the path of an eval, rather than a directory or the name of a skill.
func isNamed(argument string) bool {
	info, err := os.Stat(argument)
	return err == nil && !info.IsDir() || isYAML(argument)
}

// maxReceiver is the maximum length of the description of a host or program, in columns.
const maxReceiver = 2000

// permit returns an error unless a found file may pass on the data described by gifts: the user has allowed
// it in advance, or says yes on a terminal.
func (f *foundFile) permit(ctx context.Context, s *state, file string, gifts []plan.Gift, secrets *secret.Set) error {
	file = cmp.Or(f.file, file)
	var asked, variablesAsked []string
	byFlag := true
	for _, g := range gifts {
		if g.Build {
			names, others := logins(s.lookup)
			g.Variables, g.Others = slices.Concat(g.Variables, names), slices.Concat(g.Others, others)
		}
		variables := slices.DeleteFunc(slices.Clone(g.Variables), func(name string) bool {
			_, isGiven := f.given[name]
			value, _ := s.lookup(name)
			return isGiven || value == ""
		})
		notAllowed := slices.DeleteFunc(slices.Clone(variables), func(name string) bool { return slices.Contains(f.allowed, name) })
		connects := f.asks && g.Remote && len(variables) == 0
		what := giftOf(variables, g.Others, connects) + " to " + text.Line(secrets.String(g.To), maxReceiver)
		switch {
		case f.granted[what] || len(variables) == 0 && len(g.Others) == 0 && !connects:
		case len(notAllowed) == 0 && len(g.Others) == 0 && !connects:
			f.granted[what] = true
			s.printStatus(fmt.Sprintf("%s gives %s, as --allow-env says", file, what))
		default:
			asked, variablesAsked = append(asked, what), append(variablesAsked, variables...)
			byFlag = byFlag && len(g.Others) == 0 && !connects
		}
	}
	if len(asked) == 0 {
		return nil
	}
	if a := newAsker(s); a != nil && a.agrees(ctx, file, asked) {
		for _, what := range asked {
			f.granted[what] = true
		}
		return nil
	}
	return usage("%s was found, not named, and would give %s: read it, then %s", text.Inert(file), strings.Join(asked, ", and "), f.remedy(file, variablesAsked, byFlag))
}

// giftOf describes the data that is given.
func giftOf(variables, others []string, connects bool) string {
	if connects {
		return "a connection"
	}
	var what []string
	if len(variables) > 0 {
		noun := "the variable "
		if len(variables) > 1 {
			noun = "the variables "
		}
		what = append(what, noun+strings.Join(variables, ", "))
	}
	for _, other := range others {
		what = append(what, text.Inert(other))
	}
	return strings.Join(what, " and ")
}

// remedy says how to allow what a file would give. byFlag is true if --allow-env can allow it.
func (f *foundFile) remedy(file string, variables []string, byFlag bool) string {
	var ways []string
	if byFlag {
		flags := ""
		for _, name := range slices.Compact(slices.Sorted(slices.Values(variables))) {
			flags += " --allow-env " + name
		}
		ways = append(ways, "allow that with"+flags)
	}
	if f.name != "" {
		ways = append(ways, "name it, as in "+fmt.Sprintf(f.name, text.Inert(text.ShellWord(file))))
	}
	if len(ways) == 0 {
		return "say yes on a terminal"
	}
	return strings.Join(ways, ", or ")
}

// agrees lists what a file would give, and reports whether the user says yes. It returns false if ctx is
// cancelled.
func (a *asker) agrees(ctx context.Context, file string, gifts []string) bool {
	a.say(fmt.Sprintf("%s was found, not named. It would give:\n  %s", text.Inert(file), strings.Join(gifts, "\n  ")))
	answered := make(chan string, 1)
	go func() {
		answer, _ := a.ask("give that, yes or no", "no")
		answered <- strings.ToLower(answer)
	}()
	select {
	case answer := <-answered:
		return answer == "yes" || answer == "y"
	case <-ctx.Done():
		return false
	}
}

// mayBeLogin matches settings for registries and proxies that may contain a login: a name or password, a
// query, or a path element long enough for a token.
var mayBeLogin = regexp.MustCompile(`@|://\S*\?|://[^/\s]+/(?:\S*/)?[^/\s,|]{20,}`)

// logins returns the variables with settings for registries and proxies that may contain a login, and
// describes such addresses in the user's files. Builds get these settings.
func logins(lookup func(string) (string, bool)) (names, others []string) {
	n := buildNetwork(func(name string) (string, bool) {
		value, ok := lookup(name)
		if mayBeLogin.MatchString(value) && !filepath.IsAbs(value) { // not the path of a file
			names = append(names, name)
		}
		return value, ok
	}, &secret.Set{})
	slices.Sort(names)
	own := userRegistries(lookup)
	addresses := own.npmrc
	for name, address := range own.env {
		if n.Env[name] == address {
			addresses += address + "\n"
		}
	}
	for line := range strings.Lines(addresses) {
		if _, address, _ := strings.Cut(line, "://"); mayBeLogin.MatchString("://" + address) {
			others = []string{"the addresses of registries in your .npmrc and pip.conf"}
		}
	}
	return slices.Compact(names), others
}

// plainVariables are the environment variables that programs of a found eval get without isolation.
func plainVariables() []string {
	return []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
}

// environment returns the environment of programs without isolation. It is nil, which means the environment
// of this process, if f is nil.
func (f *foundFile) environment() []string {
	if f == nil || !defence.NamedFiles {
		return nil
	}
	env := []string{}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if slices.Contains(plainVariables(), name) || slices.Contains(f.allowed, name) {
			env = append(env, variable)
		}
	}
	return env
}
