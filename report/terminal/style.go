package terminal

// Style colours text, or leaves it as it is, as the zero Style does. What a colour says is said
// by a word too: not everybody sees it.
type Style struct{ coloured bool }

// StyleFor returns the style for an output, which is a terminal or is not, in an environment:
// NO_COLOR with any value and TERM=dumb ask for no colour.
func StyleFor(terminal bool, lookup func(string) (string, bool)) Style {
	no, _ := lookup("NO_COLOR")
	kind, _ := lookup("TERM")
	return Style{coloured: terminal && no == "" && kind != "dumb"}
}

// Good paints what went well.
func (s Style) Good(text string) string { return s.paint("32", text) }

// Bad paints what did not.
func (s Style) Bad(text string) string { return s.paint("31", text) }

// Doubtful paints what is in doubt.
func (s Style) Doubtful(text string) string { return s.paint("33", text) }

// Strong paints what is to be found first.
func (s Style) Strong(text string) string { return s.paint("1", text) }

// Faint paints what is read last.
func (s Style) Faint(text string) string { return s.paint("90", text) }

// Server paints calls of servers' tools.
func (s Style) Server(text string) string { return s.paint("36", text) }

// Skill paints uses of skills.
func (s Style) Skill(text string) string { return s.paint("35", text) }

// Builtin paints uses of other tools of an agent's own.
func (s Style) Builtin(text string) string { return s.paint("34", text) }

func (s Style) paint(code, text string) string {
	if !s.coloured || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
