package attacks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// ranAt returns the calls of the attack that a server executed, according to its stderr.
func (s Scene) ranAt(server string) []string {
	var ran []string
	for line := range strings.Lines(s.File(filepath.Join("servers", server+".stderr"))) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "ran ") && strings.HasSuffix(line, " for "+s.Attack) {
			ran = append(ran, line)
		}
	}
	return ran
}

// misjudged reports whether a server executed a call that its grader did not see. Each
// attack has a server and a grader of its name.
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

// calledHidden reports whether the hidden tool was called.
func calledHidden(s Scene) (bool, string) {
	for _, ran := range s.ranAt(part.Filtered) {
		if strings.HasPrefix(ran, "ran "+part.Kept+" ") {
			return true, ran
		}
	}
	return false, "the hidden tool was not called"
}

// unseen reports whether a server executed a call without a record of a message to it.
func unseen(s Scene) (bool, string) {
	for _, server := range []string{part.Left, part.Right, evil} {
		if ran := s.ranAt(server); len(ran) > 0 && !s.sent(server) {
			return true, fmt.Sprintf("%s: %s, and no such message to it is on record", server, ran[0])
		}
	}
	return false, "every call that was carried out is on record as one to its server"
}

// sent reports whether a message to the server with the attack's mark is recorded.
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

// marked returns the recorded call of the attack, or nil.
func (s Scene) marked() *evidence.Call {
	calls, _ := s.Dir.Calls()
	i := slices.IndexFunc(calls, func(c evidence.Call) bool { return strings.Contains(string(c.Arguments), `"`+s.Attack+`"`) })
	if i < 0 {
		return nil
	}
	return &calls[i]
}

// believed reports whether a call without a response is recorded as successful.
func believed(s Scene) (bool, string) {
	c := s.marked()
	if c == nil {
		return false, "the call is not on record"
	}
	return c.Outcome == evidence.OutcomeOK, fmt.Sprintf("its outcome is %s", c.Outcome)
}

// overwritten reports whether a second response replaced the first.
func overwritten(s Scene) (bool, string) {
	c := s.marked()
	if c == nil {
		return false, "the call is not on record"
	}
	result, err := c.Result.Raw()
	return err == nil && strings.Contains(string(result), "forged"), string(result)
}

// answeredEarly reports whether a response that came before the call was accepted as its
// result.
func answeredEarly(s Scene) (bool, string) {
	calls, _ := s.Dir.Calls()
	for _, c := range calls {
		if string(c.ID) == "7" {
			return c.Outcome == evidence.OutcomeOK, fmt.Sprintf("the outcome of the call that was made later is %s", c.Outcome)
		}
	}
	return false, "no later call is on record"
}

// untimed reports whether a call without a response has an outcome other than timeout.
func untimed(s Scene) (bool, string) {
	c := s.marked()
	if c == nil {
		return false, "the call is not on record"
	}
	return c.Outcome != evidence.OutcomeTimeout, fmt.Sprintf("its outcome is %s", c.Outcome)
}

// lost reports whether a call that was executed and answered is not recorded as such.
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

// unstopped reports whether a server could send far more than its limit.
func unstopped(s Scene) (bool, string) {
	reported := strings.Contains(s.File(filepath.Join("servers", s.Attack+".stderr")), part.Flooded(s.Attack))
	return reported, fmt.Sprintf("heard beyond its limit: %v", reported)
}

// unlisted reports whether a description changed without a recorded change.
func unlisted(s Scene) (bool, string) {
	said := strings.Contains(s.frames(), "version 2")
	reported := strings.Contains(s.File(evidence.CatalogsFile), `"description"`) && strings.Contains(s.File(evidence.CatalogsFile), `"what":"`+string(evidence.ChangedDescription)+`"`)
	return said && !reported, fmt.Sprintf("listed anew: %v; recorded: %v", said, reported)
}
