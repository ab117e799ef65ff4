package inspection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/finding"
)

// list writes one list of a server.
func (p *page) list(s Server, l catalog.List) {
	name := strings.ReplaceAll(string(l.Kind), "_", " ")
	switch {
	case l.Absent || len(l.Entries) == 0 && l.Partial == "":
		p.section("%s: none", name)
		return
	case l.Kind == catalog.Tools && s.Tokens > 0:
		p.section("%s: %d, about %d tokens of a model's context", name, len(l.Entries), s.Tokens)
	default:
		p.section("%s: %d", name, len(l.Entries))
	}
	if l.Partial != "" {
		p.line("%sINCOMPLETE: %s", indent, text.Visible(l.Partial))
	}
	if p.Full {
		for _, e := range l.Entries {
			p.entry(l, e)
		}
		return
	}
	var rows [][]string
	for _, e := range l.Entries[:min(len(l.Entries), maxRows)] {
		rows = append(rows, []string{signature(l.Kind, e), strings.Join(hints(e), ", "), summary(e.Text("description"))})
	}
	for _, line := range columns(rows, 44, 24) {
		p.line("%s%s", indent, line)
	}
	if more := len(l.Entries) - maxRows; more > 0 {
		p.line("%sand %d more (all with --full)", indent, more)
	}
}

// summary returns the first line of a text with normalized space.
func summary(s string) string {
	first, rest, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if strings.TrimSpace(rest) != "" {
		first += " …"
	}
	return text.Visible(strings.Join(strings.Fields(first), " "))
}

// Limits on indenting JSON in lists, which can multiply its size: bytes of the list, and
// nesting depth of a member.
const (
	maxLaidOut = 1 << 20
	maxIndents = 16
)

// entry writes an entry of a list in full.
func (p *page) entry(l catalog.List, e catalog.Entry) {
	p.line("%s%s  %s", indent, text.Visible(e.Key), strings.Join(hints(e), ", "))
	if s := e.Text("description"); s != "" {
		for line := range strings.SplitSeq(text.VisibleLines(s), "\n") {
			p.line("%s%s%s", indent, indent, line)
		}
	}
	for _, member := range []string{"inputSchema", "outputSchema", "arguments", "mimeType"} {
		raw := e.Member(member)
		if raw == nil {
			continue
		}
		if l.Bytes <= maxLaidOut && jsontext.Depth(raw) <= maxIndents {
			var b bytes.Buffer
			_ = json.Indent(&b, raw, indent+indent, indent) // cannot fail: raw is valid JSON
			raw = b.Bytes()
		}
		p.line("%s%s%s %s", indent, indent, member, text.VisibleLines(string(raw)))
	}
}

// maxParams is the maximum number of parameters listed for a tool.
const maxParams = 12

// signature returns the name and the parameters of an entry, with a ? after optional ones.
func signature(k catalog.Kind, e catalog.Entry) string {
	name := text.Visible(e.Key)
	var p params
	switch k {
	case catalog.Tools:
		schema := e.Member("inputSchema")
		required := map[string]bool{}
		for raw := range jsontext.Elements(jsontext.Member(schema, "required")) {
			required[jsontext.Word(raw)] = true
		}
		for key := range jsontext.Members(jsontext.Member(schema, "properties")) {
			p.add(key, required[key])
		}
	case catalog.Prompts:
		for raw := range jsontext.Elements(e.Member("arguments")) {
			p.add(jsontext.Word(jsontext.Member(raw, "name")), string(jsontext.Member(raw, "required")) == "true")
		}
	default:
		return name
	}
	return name + "(" + p.String() + ")"
}

// params is a list of parameters: the first ones, and the number of others.
type params struct {
	first []string
	all   int
}

func (p *params) add(name string, required bool) {
	if p.all++; p.all > maxParams {
		return
	}
	name = text.Visible(name)
	if !required {
		name += "?"
	}
	p.first = append(p.first, name)
}

func (p *params) String() string {
	named := strings.Join(p.first, ", ")
	if more := p.all - len(p.first); more > 0 {
		return fmt.Sprintf("%s, %d more", named, more)
	}
	return named
}

// hints returns the annotations of a tool, as claimed by the server.
func hints(e catalog.Entry) (all []string) {
	annotations := e.Member("annotations")
	for _, hint := range []struct{ key, value, text string }{
		{"readOnlyHint", "true", "reads only"}, {"readOnlyHint", "false", "writes"}, {"destructiveHint", "true", "destroys"},
		{"openWorldHint", "true", "goes out"},
	} {
		if string(jsontext.Member(annotations, hint.key)) == hint.value {
			all = append(all, hint.text)
		}
	}
	if k := len(all); k > 1 && all[0] == "writes" && all[1] == "destroys" {
		all = all[1:]
	}
	return all
}

// findings writes the findings in the server's texts.
func (p *page) findings(s Server) {
	if len(s.Findings.Places) == 0 {
		p.section("findings in its texts: none, which proves nothing")
	} else {
		p.section("%s in its texts, which are no verdict: read them and decide", text.Count(len(s.Findings.Places), "finding"))
	}
	p.places(s.Findings)
}

func (p *page) places(m finding.Findings) {
	shown := m.Places
	if !p.Full {
		shown = shown[:min(len(shown), maxRows)]
	}
	for _, found := range shown {
		p.line("%s%-13s %s", indent, found.Kind, place(found))
		for _, line := range text.Wrap("“"+text.Visible(found.Excerpt)+"”", p.width()-8) {
			p.line("%s%s%s", indent, indent+indent, line)
		}
	}
	if more := len(m.Places) - len(shown); more > 0 {
		p.line("%sand %d more (all with --full)", indent, more)
	}
	if m.Incomplete != "" {
		p.line("%snot all of it: %s", indent, m.Incomplete)
	}
}

func place(m finding.Finding) string {
	var parts []string
	for _, part := range []string{m.Of, m.Key, m.At} {
		if part != "" {
			parts = append(parts, text.Visible(part))
		}
	}
	return strings.Join(parts, " ")
}

// pin writes how the catalog differs from its pin, and how it changed during the inspection.
func (p *page) pin(s Server) {
	if len(s.Drift) > 0 {
		p.section("it listed something else a moment later")
		p.differences(s.Drift)
	}
	switch {
	case s.Pin == nil:
		return
	case len(s.Pin.Differences) == 0:
		p.section("pin: as %s has it", text.Visible(s.Pin.Lock))
	default:
		p.section("pin: NOT as %s has it", text.Visible(s.Pin.Lock))
		p.differences(s.Pin.Differences)
	}
}

func (p *page) differences(all []catalog.Difference) {
	for _, d := range all[:min(len(all), maxRows)] {
		p.line("%s%s", indent, text.Visible(d.String()))
	}
	if more := len(all) - maxRows; more > 0 {
		p.line("%sand %d more", indent, more)
	}
}

// answers writes the results of exercises.
func (p *page) answers(s Server) {
	for _, a := range s.Answers {
		p.section("%s %s: %s", a.What, text.Visible(a.Name), a.Outcome)
		if a.Message != "" {
			p.text(a.Message)
		}
		if a.Answer != nil {
			p.text(string(a.Answer))
		}
		p.places(a.Findings)
	}
}
