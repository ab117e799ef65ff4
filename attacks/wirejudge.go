package attacks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/attacks/part"
	"github.com/waza-isolate/waza/evidence"
)

// ranAt are the calls of the attack that a server carried out, as it tells outside of
// all protocols.
func (s Scene) ranAt(server string) []string {
	var ran []string
	for line := range strings.Lines(s.File(filepath.Join("servers", server+".stderr"))) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "ran ") && strings.HasSuffix(line, " for "+s.Attack) {
			ran = append(ran, line)
		}
	}
	return ran
}

// misjudged says whether a server carried out what its grader did not see: each attack
// has a server and a grader of its name.
func misjudged(s Scene) (bool, string) {
	verdicts, err := s.Dir.Verdicts()
	if err != nil {
		return false, err.Error()
	}
	for _, v := range verdicts.Verdicts {
		if v.Name != s.Attack {
			continue
		}
		for _, ran := range s.ranAt(s.Attack) {
			if !strings.Contains(ran, part.Ran(part.Shown, part.Safe, "")) {
				return v.Result == evidence.VerdictPass, fmt.Sprintf("%s; the verdict is %s: %s", ran, v.Result, v.Feedback)
			}
		}
	}
	return false, "the server did what is on record"
}

// calledHidden says whether the tool that is kept from the agent was called.
func calledHidden(s Scene) (bool, string) {
	for _, ran := range s.ranAt(part.Filtered) {
		if strings.HasPrefix(ran, "ran "+part.Kept+" ") {
			return true, ran
		}
	}
	return false, "the hidden tool was not called"
}

// unseen says whether a server carried out a call that is not on record as one to
// it.
func unseen(s Scene) (bool, string) {
	for _, server := range []string{part.Left, part.Right, evil} {
		if ran := s.ranAt(server); len(ran) > 0 && !s.sent(server) {
			return true, fmt.Sprintf("%s: %s, and no such message to it is on record", server, ran[0])
		}
	}
	return false, "every call that was carried out is on record as one to its server"
}

// sent says whether a message with the attack's mark to a server is on record.
func (s Scene) sent(server string) bool {
	for f, err := range s.Dir.Frames() {
		if err != nil {
			return false
		}
		if f.Dir == evidence.ToServer && f.Server == server && strings.Contains(string(f.Raw), `"`+s.Attack+`"`) {
			return true
		}
	}
	return false
}

// marked is the call of an attack as it is on record; nil where there is none.
func (s Scene) marked() *evidence.Call {
	calls, _ := s.Dir.Calls()
	i := slices.IndexFunc(calls, func(c evidence.Call) bool { return strings.Contains(string(c.Arguments), `"`+s.Attack+`"`) })
	if i < 0 {
		return nil
	}
	return &calls[i]
}

// believed says whether a call that got no answer is on record as one that did.
func believed(s Scene) (bool, string) {
	c := s.marked()
	if c == nil {
		return false, "the call is not on record"
	}
	return c.Outcome == evidence.OutcomeOK, fmt.Sprintf("its outcome is %s", c.Outcome)
}

// overwritten says whether a second answer took the place of the first.
func overwritten(s Scene) (bool, string) {
	c := s.marked()
	if c == nil {
		return false, "the call is not on record"
	}
	result, err := c.Result.Raw()
	return err == nil && strings.Contains(string(result), "forged"), string(result)
}

// answeredEarly says whether a call has for its result what was said before it was made.
func answeredEarly(s Scene) (bool, string) {
	calls, _ := s.Dir.Calls()
	for _, c := range calls {
		if string(c.ID) == "7" {
			return c.Outcome == evidence.OutcomeOK, fmt.Sprintf("the outcome of the call that was made later is %s", c.Outcome)
		}
	}
	return false, "no later call is on record"
}

// untimed says whether a call that is never answered is anything but a timeout.
func untimed(s Scene) (bool, string) {
	c := s.marked()
	if c == nil {
		return false, "the call is not on record"
	}
	return c.Outcome != evidence.OutcomeTimeout, fmt.Sprintf("its outcome is %s", c.Outcome)
}

// lost says whether a call that was carried out and answered is not on record as that.
func lost(s Scene) (bool, string) {
	c := s.marked()
	if len(s.ranAt(part.Patient)) == 0 {
		return false, "the call was not carried out"
	}
	if c == nil {
		return true, "the call was carried out, and is not on record"
	}
	return c.Outcome != evidence.OutcomeOK, fmt.Sprintf("its outcome is %s", c.Outcome)
}

// unstopped says whether a server was heard far beyond its limit.
func unstopped(s Scene) (bool, string) {
	reported := strings.Contains(s.File(filepath.Join("servers", s.Attack+".stderr")), part.Flooded(s.Attack))
	return reported, fmt.Sprintf("heard beyond its limit: %v", reported)
}

// unlisted reports whether a description changed and no change is on record.
func unlisted(s Scene) (bool, string) {
	said := strings.Contains(s.File(evidence.FramesFile), "version 2")
	reported := strings.Contains(s.File(evidence.CatalogsFile), `"description"`) && strings.Contains(s.File(evidence.CatalogsFile), `"what":"`+string(evidence.ChangedDescription)+`"`)
	return said && !reported, fmt.Sprintf("listed anew: %v; recorded: %v", said, reported)
}
