package terminal

// Style adds colors to text. The zero Style leaves it unchanged. Colors never carry
// information that the text does not.
type Style struct{ coloured bool }

// StyleFor returns the style for an output, given whether it is a terminal, and the
// environment: a non-empty NO_COLOR and TERM=dumb disable colors.
func StyleFor(terminal bool, lookup func(string) (string, bool)) Style {
	no, _ := lookup("NO_COLOR")
	kind, _ := lookup("TERM")
	return Style{coloured: terminal && no == "" && kind != "dumb"}
}

// Good styles success.
func (s Style) Good(text string) string { return s.paint("32", text) }

// Bad styles failure.
func (s Style) Bad(text string) string { return s.paint("31", text) }

// Doubtful styles uncertain results.
func (s Style) Doubtful(text string) string { return s.paint("33", text) }

// Strong styles important text.
func (s Style) Strong(text string) string { return s.paint("1", text) }

// Faint styles secondary text.
func (s Style) Faint(text string) string { return s.paint("90", text) }

// Server styles calls of servers' tools.
func (s Style) Server(text string) string { return s.paint("36", text) }

// Skill styles uses of skills.
func (s Style) Skill(text string) string { return s.paint("35", text) }

// Builtin styles uses of the agent's own tools.
func (s Style) Builtin(text string) string { return s.paint("34", text) }

// codes are the codes of all styles, and of their end.
var codes = []string{"32", "31", "33", "1", "90", "36", "35", "34", "0"}

// Sequences returns the control sequences of all styles.
func Sequences() []string {
	all := make([]string, len(codes))
	for i, code := range codes {
		all[i] = "\x1b[" + code + "m"
	}
	return all
}

func (s Style) paint(code, text string) string {
	if !s.coloured || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
