package results

import (
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// maxRemarked is how many of a kind a line about a server names.
const maxRemarked = 3

// remarks has a line for each server that did something which a person may want to know
// before they trust it. Lines are cut to width.
func (r Results) remarks(width int) string {
	var out strings.Builder
	for _, s := range r.Servers {
		said := s.remarkable()
		if len(said) == 0 {
			continue
		}
		line := fmt.Sprintf("server %s: %s", s.Name, strings.Join(said, "; "))
		if width > 0 {
			line = shorten(line, width)
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

// remarkable are the things that are worth a person's look. What a server starts and
// writes inside its container is in the card alone.
func (s ServerCard) remarkable() (said []string) {
	if s.Failed > 0 {
		said = append(said, fmt.Sprintf("exited before it answered in %d trial(s)", s.Failed))
	}
	said = append(said, s.Conduct.remarkable()...)
	if s.Marks != nil && s.Marks.count() > 0 {
		said = append(said, fmt.Sprintf("%d marked place(s) in what it says of its tools", s.Marks.count()))
	}
	if s.RugPulls > 0 {
		said = append(said, fmt.Sprintf("changed its tools in %d trial(s)", s.RugPulls))
	}
	return said
}

func (c *Conduct) remarkable() (said []string) {
	if c == nil {
		return nil
	}
	var places, names, refused, secrets []string
	for _, n := range c.Connections {
		switch {
		case n.Network == observe.Unknown:
			places = append(places, "an address that it hid")
		case n.Outside():
			places = append(places, printable(n.Address))
		}
	}
	for _, n := range c.Names {
		if !n.Answered {
			names = append(names, printable(n.Name))
		}
	}
	for _, h := range c.Egress {
		if h.Refused > 0 {
			refused = append(refused, printable(h.Name))
		}
	}
	for _, e := range c.Secrets {
		secrets = append(secrets, e.Secret)
	}
	for _, kind := range []struct {
		what string
		of   []string
	}{
		{"said the secret", secrets}, {"tried to connect to", places}, {"asked for the name", names},
		{"was refused egress to", refused},
	} {
		if len(kind.of) > 0 {
			said = append(said, kind.what+" "+few(kind.of))
		}
	}
	return said
}

// few names the first of a list.
func few(all []string) string {
	return strings.Join(text.Few(all, maxRemarked), ", ")
}

// printable is a name that somebody else chose, as a terminal may get it.
func printable(name string) string {
	if quoted := fmt.Sprintf("%q", name); quoted != `"`+name+`"` || strings.Contains(name, " ") {
		return quoted
	}
	return name
}
