package stub

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/internal/text"
)

// offered is a tool that a request lets the model call.
type offered struct {
	name      string // as it is called
	namespace string // around the name, where the agent keeps the two apart
}

// full is the name with its namespace, parted as dialect.Tool has them.
func (t offered) full() string {
	if t.namespace == "" {
		return t.name
	}
	return strings.TrimSuffix(t.namespace, "__") + "__" + t.name
}

// is reports whether the tool's name is name, or ends with it after something that is
// no letter and no digit.
func (t offered) is(name string) bool { return t.name == name || endsWith(t.full(), name) }

func endsWith(full, end string) bool {
	before, found := strings.CutSuffix(full, end)
	return found && (before == "" || !isWord(rune(before[len(before)-1])))
}

func isWord(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// pick finds the tool that c means among those offered. The error says what is there.
func (c call) pick(tools []offered) (offered, error) {
	surely, perhaps := c.fitting(tools)
	for _, found := range [][]offered{surely, perhaps} {
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return offered{}, fmt.Errorf("the script calls %s, and more than one offered tool fits: %s; add its server to the call", c, names(found))
		}
	}
	return offered{}, fmt.Errorf("the script calls %s, and no such tool is offered; offered are: %s", c, names(tools))
}

// fitting are the tools that c can mean, each once: with a server those whose names are
// made of its name and the tool's, in a way that agents have, and else those of the
// tool's own name; without one those of the whole name, and else of that end.
func (c call) fitting(tools []offered) (surely, perhaps []offered) {
	readings := make([]capture.Resolution, len(tools))
	if c.server != "" {
		all := make([]string, len(tools))
		for i, t := range tools {
			all[i] = t.full()
		}
		readings = capture.Resolve(map[string][]string{c.server: {c.tool}}, all...)
	}
	for i, t := range tools {
		ofServer := readings[i].Kind == capture.NameTool && !readings[i].Bare
		switch {
		case ofServer || c.server == "" && t.full() == c.tool:
			surely = with(surely, t)
		case readings[i].Bare || c.server == "" && t.is(c.tool):
			perhaps = with(perhaps, t)
		}
	}
	return surely, perhaps
}

func with(tools []offered, t offered) []offered {
	if slices.Contains(tools, t) {
		return tools
	}
	return append(tools, t)
}

func (c call) String() string {
	if c.server == "" {
		return fmt.Sprintf("%q", c.tool)
	}
	return fmt.Sprintf("%q of server %q", c.tool, c.server)
}

// shownNames bounds how many names a message has.
const shownNames = 200

func names(tools []offered) string {
	if len(tools) == 0 {
		return "none"
	}
	return strings.Join(text.Some(tools, shownNames, func(t offered) string { return excerpt(t.full()) }), ", ")
}
