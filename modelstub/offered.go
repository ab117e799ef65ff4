package modelstub

import (
	"fmt"
	"slices"
	"strings"
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

// of reports whether the tool's name is name after that of server. Agents write what is
// no letter and no digit in a server's name in their own ways.
func (t offered) of(server, name string) bool {
	return endsWith(plain(t.full()), plain(server+"_"+name))
}

func endsWith(full, end string) bool {
	before, found := strings.CutSuffix(full, end)
	return found && (before == "" || !isWord(rune(before[len(before)-1])))
}

func isWord(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// plain is name with one _ for each run of what is no letter and no digit.
func plain(name string) string {
	return strings.Join(strings.FieldsFunc(name, func(c rune) bool { return !isWord(c) }), "_")
}

// pick finds the tool that c means among those offered. The error says what is there.
func (c call) pick(tools []offered) (offered, error) {
	for _, fits := range c.ways() {
		var found []offered
		for _, t := range tools {
			if fits(t) && !slices.Contains(found, t) {
				found = append(found, t)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return offered{}, fmt.Errorf("the script calls %s, and more than one offered tool fits: %s; say which server's by server:", c, names(found))
		}
	}
	return offered{}, fmt.Errorf("the script calls %s, and no such tool is offered; offered are: %s", c, names(tools))
}

// ways are how a tool may be meant, the surest first.
func (c call) ways() []func(offered) bool {
	bare := func(t offered) bool { return t.full() == c.tool }
	if c.server != "" {
		return []func(offered) bool{func(t offered) bool { return t.of(c.server, c.tool) }, bare}
	}
	return []func(offered) bool{bare, func(t offered) bool { return t.is(c.tool) }}
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
	all := make([]string, 0, len(tools))
	for _, t := range tools[:min(len(tools), shownNames)] {
		all = append(all, excerpt(t.full()))
	}
	if len(tools) > shownNames {
		all = append(all, fmt.Sprintf("and %d more", len(tools)-shownNames))
	}
	return strings.Join(all, ", ")
}
