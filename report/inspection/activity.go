package inspection

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// maxLines is the number of lines shown of each list, unless everything is requested.
const maxLines = 8

// activity writes what a server did.
func (p *page) activity(s Server) {
	if s.Remote {
		return
	}
	p.section("what it did, as its container's process 1 and the runner report")
	if d := s.Did; d != nil {
		lines := map[string][]string{}
		for _, act := range view.Acts(d) {
			lines[act.List] = append(lines[act.List], text.Visible(act.Text()))
		}
		for _, list := range []struct{ label, name string }{
			{"files", observe.Files}, {"programs", observe.Programs}, {"connections", observe.Connections},
			{"names asked", "names"}, {"egress", "egress"}, {"leaked", "secrets"},
		} {
			p.did(list.label, lines[list.name], d.More[list.name], d.Unseen[list.name])
		}
		for _, limit := range d.Limits {
			p.label("limit", "%s", text.Visible(limit))
		}
	}
	p.label("used", "%s", used(s))
	if len(s.Asked) > 0 {
		var all []string
		for _, method := range slices.Sorted(maps.Keys(s.Asked)) {
			all = append(all, fmt.Sprintf("%s %d×", text.Line(method, 60), s.Asked[method]))
		}
		p.label("asked for", "%s; all was refused", strings.Join(all, ", "))
	}
	if s.Noise > 0 {
		p.label("stdout", "%s that are no messages", text.Count(s.Noise, "line"))
	}
	for _, end := range s.Ends {
		p.label("ended", "%s", text.Visible(end))
	}
	if s.Ended != "" {
		p.label("ended", "it %s before it was asked to", text.Visible(s.Ended))
	}
	if s.Stderr != "" {
		p.label("stderr", "ends")
		p.stderr(s.Stderr)
	}
}

// did writes one list of activities.
func (p *page) did(label string, lines []string, more int, unseen string) {
	shown := lines
	if !p.Full {
		shown = lines[:min(len(lines), maxLines)]
	}
	more += len(lines) - len(shown)
	if more > 0 {
		shown = append(slices.Clone(shown), fmt.Sprintf("and %d more", more))
	}
	switch {
	case unseen != "":
		shown = append(slices.Clone(shown), "not seen: "+text.Visible(unseen))
	case len(shown) == 0:
		shown = []string{"none"}
	}
	for i, line := range shown {
		if i > 0 {
			label = ""
		}
		p.line("%s%-*s %s", indent, labelWidth, label, line)
	}
}

// used returns the resource usage of a server.
func used(s Server) string {
	if s.Used == nil {
		return "not known"
	}
	u := s.Used.Used
	if u == nil {
		return "not known: " + text.Visible(s.Used.Unseen)
	}
	var all []string
	if u.Memory != nil {
		all = append(all, "memory at most "+view.Bytes(u.Memory.Peak))
	}
	if u.CPU != nil {
		all = append(all, fmt.Sprintf("CPU %.1f s", *u.CPU))
	}
	if u.Pids != nil {
		all = append(all, fmt.Sprintf("processes and threads at most %d", u.Pids.Peak))
	}
	if len(all) == 0 {
		return "not known"
	}
	return strings.Join(all, ", ")
}

// stderr writes the last lines of stderr.
func (p *page) stderr(s string) {
	lines := strings.Split(strings.TrimRight(text.VisibleLines(s), "\n"), "\n")
	if !p.Full {
		lines = lines[max(0, len(lines)-maxLines):]
	}
	for _, line := range lines {
		p.line("%s%s| %s", indent, strings.Repeat(" ", labelWidth), line)
	}
}

// unseen lists what an inspection cannot show.
func (p *page) unseen(s Server) {
	p.section("not seen")
	if len(s.Answers) == 0 {
		p.bullet("what it does when its tools are called: nothing was called")
	} else {
		p.bullet("what it does for other calls than those above")
	}
	if s.Remote {
		p.bullet("anything that it does where it runs")
		return
	}
	p.bullet("what it does later, or elsewhere: a server can tell that it is in a sandbox, and wait")
	if s.Did == nil {
		p.bullet("files, programs and connections: not recorded")
	}
}

func (p *page) bullet(said string) {
	for i, line := range text.Wrap(said, p.width()-2*len(indent)) {
		mark := "- "
		if i > 0 {
			mark = indent
		}
		p.line("%s%s%s", indent, mark, line)
	}
}
