package evidence

import (
	"encoding/json"
	"strings"
	"testing"
)

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

// Guarantees that lack nothing say so, also those of a record that does not have the key.
func TestGuaranteesThatLackNothing(t *testing.T) {
	for _, record := range []string{`{"enforced":["walls"]}`, `{"enforced":["walls"],"missing":null}`, `{"enforced":["walls"],"missing":[]}`} {
		var g Guarantees
		if err := json.Unmarshal([]byte(record), &g); err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(g); err != nil || !strings.HasSuffix(string(again), `"enforced":["walls"],"missing":[]}`) {
			t.Errorf("%s is written as %s, %v", record, again, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"missing":1}`), new(Guarantees)); err == nil {
		t.Error("a number was read")
	}
}
