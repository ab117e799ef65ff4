package evidence

import "testing"

func TestOutcome(t *testing.T) {
	trial := Trial{Class: ClassTimeout, Reason: ReasonTimeLimit, Message: "too long"}
	for name, test := range map[string]struct {
		verdicts Verdicts
		class    Class
		reason   Reason
		message  string
	}{
		"before it is graded": {Verdicts{}, ClassTimeout, ReasonTimeLimit, "too long"},
		"graded":              {Verdicts{Class: ClassFail, Reason: ReasonGraders, Message: "failed: a"}, ClassFail, ReasonGraders, "failed: a"},
		"nothing more said":   {Verdicts{Class: ClassPass}, ClassPass, "", "too long"},
	} {
		class, reason, message := trial.Outcome(test.verdicts)
		if class != test.class || reason != test.reason || message != test.message {
			t.Errorf("%s: %s %s %q", name, class, reason, message)
		}
	}
}
