package inspection

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
)

// Layout of a page.
const (
	usualWidth = 110 // without a terminal
	leastWidth = 60
	labelWidth = 13
	indent     = "  "
	maxRows    = 60 // per list, unless everything is requested
)

// page is the output so far.
type page struct {
	Options
	out strings.Builder
}

func (p *page) width() int {
	if p.Width <= 0 {
		return usualWidth
	}
	return max(p.Width, leastWidth)
}

// line writes one line. Untrusted text in it must have been made visible.
func (p *page) line(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if !p.Full {
		s = text.Fit(s, p.width())
	}
	p.out.WriteString(s + "\n")
}

// label writes a label with its text, on as many lines as necessary.
func (p *page) label(label, format string, args ...any) {
	room := p.width() - len(indent) - labelWidth - 1
	for i, line := range text.Wrap(fmt.Sprintf(format, args...), room) {
		if i > 0 {
			label = ""
		}
		p.out.WriteString(fmt.Sprintf("%s%-*s %s\n", indent, labelWidth, label, line))
	}
}

func (p *page) report(r Report) {
	for i, s := range r.Servers {
		if i > 0 {
			p.out.WriteString("\n")
		}
		p.server(r, s)
	}
	fmt.Fprintf(&p.out, "\nevidence: %s; all of this is in %s there\n", text.Visible(p.Dir), File)
}

func (p *page) server(r Report, s Server) {
	p.identity(s)
	p.isolation(r, s)
	if s.Failed != "" {
		p.section("not inspected")
		failed := s.Failed
		if !p.Full {
			failed = text.BothEnds(failed, 4, 8)
		}
		p.firstLines(failed, math.MaxInt)
	} else {
		if s.Catalog.Instructions != "" {
			p.section("instructions to the model")
			p.text(s.Catalog.Instructions)
		}
		for _, l := range s.Catalog.Lists {
			p.list(s, l)
		}
		p.findings(s)
		p.pin(s)
		p.answers(s)
	}
	p.activity(s)
	p.unseen(s)
}

func (p *page) section(format string, args ...any) {
	p.out.WriteString("\n")
	p.line(format, args...)
}

// text writes an untrusted text, or its beginning.
func (p *page) text(s string) {
	most := 6
	if p.Full {
		most = math.MaxInt
	}
	p.firstLines(s, most)
}

// firstLines writes up to most lines of an untrusted text.
func (p *page) firstLines(s string, most int) {
	shown := 0
	for line := range strings.SplitSeq(strings.TrimRight(text.VisibleLines(s), "\n"), "\n") {
		for _, part := range text.Wrap(line, p.width()-2*len(indent)) {
			if shown == most {
				p.line("%s…  (--full shows all)", indent)
				return
			}
			shown++
			p.line("%s%s", indent, part)
		}
	}
}

func (p *page) identity(s Server) {
	name := s.Name
	p.line("%s", name)
	if s.Failed == "" {
		p.label("says it is", "%s, %s", who(s.Catalog.Server), spoken(s))
	}
	p.label("from", "%s", text.Visible(source(s)))
	if s.Package != nil {
		by := "resolved today"
		if s.Package.Locked {
			by = "as the lock has it"
		}
		p.label("package", "%s, %s, %s", text.Visible(s.Package.Request), text.Visible(s.Package.Version), by)
	}
	if s.Image != nil {
		p.label("image", "%s", text.Visible(strings.Join(append([]string{s.Image.Ref, s.Image.ID}, s.Image.Digests...), " ")))
	}
}

func who(s catalog.Server) string {
	name := text.Line(s.Name, 80)
	if name == "" {
		name = "nobody by name"
	}
	if version := text.Line(s.Version, 40); version != "" {
		name += " " + version
	}
	return name
}

func spoken(s Server) string {
	return fmt.Sprintf("protocol %s over %s", text.Line(s.Catalog.Server.Protocol, 40), s.Transport)
}

// source returns what was started, as declared in the configuration.
func source(s Server) string {
	switch c := s.Config; {
	case c.URL != "":
		return c.URL
	case c.Command != "":
		return strings.Join(append([]string{c.Command}, c.Args...), " ")
	default:
		return strings.Join(append([]string{"image " + c.Image}, c.Args...), " ")
	}
}

func (p *page) isolation(r Report, s Server) {
	if s.Remote {
		p.label("isolation", "none: it runs somewhere else, and the runner alone spoke with it; what it did there is not known")
		return
	}
	if c := r.Certificate; c != nil {
		text := fmt.Sprintf("%d attacks on a sandbox of this kind failed, %s", c.Held, c.At.UTC().Format("2006-01-02 15:04 MST"))
		if len(c.GotOut) > 0 {
			text += "; GOT OUT: " + strings.Join(c.GotOut, ", ")
		}
		if len(c.NotTried) > 0 {
			text += "; not tried: " + strings.Join(c.NotTried, ", ")
		}
		p.label("isolation", "%s", text)
	}
	if g := s.Guarantees; g != nil {
		p.label("in force", "%s", strings.Join(g.Enforced, "; "))
		if len(g.Missing) > 0 {
			p.label("NOT in force", "%s", text.Visible(strings.Join(g.Missing, "; ")))
		}
	}
}

// columns pads each column of rows, except the last, to its widest cell, within the limits.
func columns(rows [][]string, limits ...int) []string {
	widths := make([]int, len(limits))
	for _, row := range rows {
		for i, limit := range limits {
			row[i] = text.Fit(row[i], limit)
			widths[i] = max(widths[i], text.Columns(row[i]))
		}
	}
	var lines []string
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(limits) && slices.ContainsFunc(row[i+1:], func(s string) bool { return s != "" }) {
				b.WriteString(strings.Repeat(" ", widths[i]-text.Columns(cell)+2))
			}
		}
		lines = append(lines, b.String())
	}
	return lines
}

// Options configures the printing of a report. Width is that of the terminal; 0 for no
// limit.
type Options struct {
	Width int
	Full  bool   // print texts and schemas in full
	Dir   string // directory of the evidence
}

// Print writes a report for the terminal.
func Print(w io.Writer, r Report, o Options) error {
	p := &page{Options: o}
	p.report(r)
	_, err := io.WriteString(w, p.out.String())
	return err
}
