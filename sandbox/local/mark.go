package local

import "strings"

// markVariable is the variable of the environment by which programs that left
// their process group are found again, where the system shows it.
const markVariable = "WAZA_SANDBOX"

// mark names a container of a sandbox, or with an empty name what all its containers' marks
// begin with.
func (s *trialSandbox) mark(container string) string { return s.dir + ":" + container }

// isMarked says whether an environment, as the system shows it, has a mark that
// is mark, or begins with it where mark ends in a separator.
func isMarked(environ, mark string) bool {
	for variable := range strings.SplitSeq(environ, "\x00") {
		value, ok := strings.CutPrefix(variable, markVariable+"=")
		if !ok {
			continue
		}
		open := strings.HasSuffix(mark, ":") || strings.HasSuffix(mark, "/")
		if value == mark || open && strings.HasPrefix(value, mark) {
			return true
		}
	}
	return false
}
