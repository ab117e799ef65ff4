package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// deed is something that a server did beside answering.
type deed struct {
	What  string
	Which string // a stranger's words
	How   string
}

// deeds are those worth a person's look, and the others: what it started, wrote and reached
// inside its container, and what it was let.
func deeds(c *results.Conduct) (notable, others []deed) {
	if c == nil {
		return nil, nil
	}
	sort := func(d deed, look bool) {
		if look {
			notable = append(notable, d)
		} else {
			others = append(others, d)
		}
	}
	for _, e := range c.Secrets {
		sort(deed{"said the secret", e.Secret, fmt.Sprintf("%s in messages, %d on stderr", times(e.Frames), e.Stderr)}, true)
	}
	for _, n := range c.Connections {
		hidden := n.Network == observe.Unknown
		sort(deed{"tried to connect to", n.Address, fmt.Sprintf("%s, %s", n.Network, times(n.Count))}, hidden || n.Outside())
	}
	for _, n := range c.Names {
		answer := "without an answer"
		if n.Answered {
			answer = "answered: it is of the trial"
		}
		sort(deed{"asked for the name", n.Name, fmt.Sprintf("%s, %s", times(n.Count), answer)}, !n.Answered)
	}
	for _, h := range c.Egress {
		sort(deed{"asked for the host", fmt.Sprintf("%s:%d", h.Name, h.Port), carried(h)}, h.Refused > 0)
	}
	for _, l := range c.Limits {
		sort(deed{"ran into a limit", l, ""}, true)
	}
	for _, p := range c.Programs {
		sort(deed{"started", strings.Join(append([]string{p.Path}, p.Args[min(1, len(p.Args)):]...), " "), times(p.Count)}, false)
	}
	for _, f := range c.Files {
		sort(deed{strings.TrimSpace(f.What + " the " + kindOf(f.Kind)), f.Path, byteCount(f.Size)}, false)
	}
	return notable, others
}

func kindOf(kind string) string {
	if kind == "" {
		return "file"
	}
	return kind
}

func carried(h results.EgressHost) string {
	if h.Refused == h.Connections {
		return fmt.Sprintf("refused %s", times(h.Refused))
	}
	text := fmt.Sprintf("%s, %s out, %s in", several(h.Connections, "connection"), byteCount(h.Out), byteCount(h.In))
	if h.Refused > 0 {
		text += fmt.Sprintf("; refused %s", times(h.Refused))
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return count(n) + " times"
}

// Untold says what is counted and not listed, and what could not be watched.
func (s server) Untold() (said []string) {
	if s.Conduct == nil {
		return []string{"Nothing on record tells what it did beside answering."}
	}
	for _, list := range slices.Sorted(maps.Keys(s.Conduct.More)) {
		if !s.foldsMore(list) {
			said = append(said, moreOf(list, s.Conduct.More[list]))
		}
	}
	for _, list := range slices.Sorted(maps.Keys(s.Conduct.Unseen)) {
		said = append(said, fmt.Sprintf("Not watched: %s, because %s.", list, s.Conduct.Unseen[list]))
	}
	return said
}

// MoreOthers says what is counted and not listed of what is among the others.
func (s server) MoreOthers() (said []string) {
	for _, list := range slices.Sorted(maps.Keys(s.Conduct.More)) {
		if s.foldsMore(list) {
			said = append(said, moreOf(list, s.Conduct.More[list]))
		}
	}
	return said
}

// foldsMore says whether the count of what a list lacks stands with the others.
func (s server) foldsMore(list string) bool {
	return len(s.Others) > 0 && slices.Contains([]string{observe.Files, observe.Programs, observe.Missing}, list)
}

// moreOf says how much of a list is counted and not listed.
func moreOf(list string, n int) string {
	switch list {
	case observe.Missing:
		return fmt.Sprintf("It looked %s for a program that is not there.", times(n))
	case observe.Files:
		list = "the files that it changed"
	case observe.Programs:
		list = "the programs that it started"
	}
	return fmt.Sprintf("And %s more of %s.", count(n), list)
}
