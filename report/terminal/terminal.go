// Package terminal writes runs for a terminal: tables, why trials did not pass, and the
// conversation of a trial.
//
// What strangers said is in all of it. It is written without characters that control a
// terminal, and where it has lines of its own they are set in, so that they cannot look
// like ours.
package terminal

import (
	"github.com/waza-isolate/waza/evidence"
)

// Paint is how an outcome is painted.
func Paint(style Style, class evidence.Class) func(string) string {
	switch class {
	case evidence.ClassPass:
		return style.Good
	case evidence.ClassInfra, evidence.ClassError:
		return style.Doubtful
	}
	return style.Bad
}

// NotIsolated is said wherever a run without --isolate says anything.
const NotIsolated = "nothing was isolated: agents and servers ran as processes of yours"
