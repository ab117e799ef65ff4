package attacks

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// order describes lines with special meaning.
type order struct {
	has     string // substring of such lines, as a fast test
	pattern string
}

// obeyed returns patterns for the part of a saying that must not be printed. Without a
// pattern, that is the whole saying.
func obeyed() map[string]order {
	return map[string]order{
		"ci-command":  {"ci-mark", `^::error::ci-mark`},
		"ci-indented": {"mask-mark", `^[\s\p{Zs}]*::add-mask::mask-mark`},
		"ci-anywhere": {"##", `##vso\[task|##\[error`},
		"forged-line": {"forged-mark", `^forged-mark/1`},
	}
}

// sayingTask is the trial that contains all of them.
const sayingTask = "terminal-title"

// sayingAttacks returns the attacks by texts with special meaning for terminals or CI
// systems, from an agent, from a server in all its texts, and from a grader's program.
func sayingAttacks() []Attack {
	const first = sayingTask
	all := []Attack{{
		Attack: entry("terminal-stderr", "send terminal control sequences on a server's stderr, which -v shows", probe.InertOutput, plainText),
		As:     Server, Alone: &Alone{Args: []string{"-v"}},
		Won: func(s Scene) (bool, string) {
			for _, name := range slices.Sorted(maps.Keys(part.Sayings())) {
				if won, what := s.printed(name, s.Run.Output); won {
					return true, name + ": " + what
				}
			}
			return false, ""
		},
		Tried: func(s Scene) bool { return strings.Contains(s.Run.Output, "bidi-mark") },
	}}
	for _, name := range slices.Sorted(maps.Keys(part.Sayings())) {
		a := Attack{
			Attack: entry(name, "send control sequences or CI commands in the output of the agent, a server and a grader's program", probe.InertOutput, plainText),
			As:     Both, In: first,
			Won:   func(s Scene) (bool, string) { return s.printed(name, s.shown()) },
			Tried: func(s Scene) bool { return strings.Contains(s.shown(), "bidi-mark") },
		}
		if name == "forged-line" {
			a.Without, a.Goal = setIn, "forge a line that looks like waza's"
		}
		if name == first {
			a.In, a.Task = "", func(g Ground, t *eval.Task) { t.Graders = []eval.Grader{g.Program("says", first)} }
		}
		all = append(all, a)
	}
	return all
}

// printed reports whether text contains a saying in a form that is acted on.
func (s Scene) printed(saying, text string) (bool, string) {
	order, special := obeyed()[saying]
	if !special {
		whole := part.Sayings()[saying]
		return strings.Contains(text, whole), whole
	}
	pattern := regexp.MustCompile(order.pattern)
	for line := range strings.Lines(text) {
		if strings.Contains(line, order.has) && pattern.MatchString(line) {
			return true, line
		}
	}
	return false, ""
}

// shown returns everything that waza prints about the trial, during the run and later.
func (s Scene) shown() string {
	if said, known := s.Run.shown[s.Task]; known {
		return said
	}
	said := s.Run.Output
	for _, args := range [][]string{
		{"show", s.Run.Dir, s.Task}, {"show", "--full", s.Run.Dir, s.Task}, {"compare", s.Run.Dir, s.Run.Dir},
		{"compare", "--format", "json", s.Run.Dir, s.Run.Dir}, {"grade", "--format", "json", s.Run.Dir},
	} {
		said += s.Run.printed(args...)
	}
	s.Run.shown = map[string]string{s.Task: said}
	return said
}
