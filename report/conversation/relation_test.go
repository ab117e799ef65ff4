package conversation

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

// made is a call of incident 1 that lasts from one second to another; to 0 it has no end.
func made(seq, from, to int, outcome evidence.Outcome, arguments string) evidence.Call {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	call := evidence.Call{Seq: seq, Incident: 1, Start: began.Add(time.Duration(from) * time.Second), Outcome: outcome, Arguments: json.RawMessage(arguments)}
	if to > 0 {
		call.End = began.Add(time.Duration(to) * time.Second)
	}
	return call
}

func TestRelations(t *testing.T) {
	t.Parallel()
	again := made(7, 1, 2, evidence.OutcomeOK, `{}`)
	again.Incident, again.SameAs = 0, 2
	repeated := made(2, 2, 3, evidence.OutcomeToolError, `{}`)
	repeated.SameAs = 1
	for name, test := range map[string]struct {
		calls []evidence.Call
		want  map[int][]Relation
	}{
		"nothing failed": {calls: []evidence.Call{{Seq: 1, Outcome: evidence.OutcomeOK}}},
		"given up":       {calls: []evidence.Call{made(1, 0, 1, evidence.OutcomeTimeout, `{}`)}, want: map[int][]Relation{1: {{Failed, 0, "not tried again"}}}},
		"in vain": {
			calls: []evidence.Call{made(1, 0, 1, evidence.OutcomeToolError, `{}`), repeated},
			want:  map[int][]Relation{1: {{Failed, 2, "tried again, call 2 failed too"}}, 2: {{Retry, 1, "retry of call 1, failed too"}}},
		},
		"cancelled": {
			calls: []evidence.Call{made(1, 0, 1, evidence.OutcomeToolError, `{}`), made(2, 1, 3, evidence.OutcomeCancelled, `{}`)},
			want:  map[int][]Relation{1: {{Failed, 2, "tried again, call 2 was cancelled"}}, 2: {{Retry, 1, "retry of call 1, was cancelled"}}},
		},
		"one beside, then others": {
			calls: []evidence.Call{
				made(1, 0, 4, evidence.OutcomeToolError, `{}`), made(2, 1, 5, evidence.OutcomeTimeout, `{"a":1}`),
				made(3, 5, 6, evidence.OutcomeToolError, `{}`), made(4, 6, 7, evidence.OutcomeOK, `{"a":1}`), again,
			},
			want: map[int][]Relation{
				1: {{Failed, 4, "tried again with other arguments, call 4 succeeded"}},
				2: {{Beside, 1, "failed beside call 1"}},
				3: {{Retry, 1, "retry of call 1, failed too"}},
				4: {{Retry, 1, "retry of call 1 with other arguments, succeeded"}},
				7: {{Same, 2, "same tool and arguments as call 2"}},
			},
		},
		"the later one failed first": {
			calls: []evidence.Call{made(1, 0, 9, evidence.OutcomeTimeout, `{}`), made(2, 1, 2, evidence.OutcomeToolError, `{}`), made(3, 2, 3, evidence.OutcomeOK, `{}`)},
			want: map[int][]Relation{
				1: {{Beside, 2, "failed beside call 2"}}, 2: {{Failed, 3, "tried again, call 3 succeeded"}}, 3: {{Retry, 2, "retry of call 2, succeeded"}},
			},
		},
		"without ends": {
			calls: []evidence.Call{made(1, 0, 0, evidence.OutcomeTransportError, `{}`), made(2, 1, 0, evidence.OutcomeTransportError, `{}`)},
			want:  map[int][]Relation{1: {{Failed, 0, "not tried again"}}, 2: {{Beside, 1, "failed beside call 1"}}},
		},
	} {
		var c Conversation
		for i := range test.calls {
			c.Steps = append(c.Steps, Step{Call: &test.calls[i]})
		}
		if test.want == nil {
			test.want = map[int][]Relation{}
		}
		if diff := cmp.Diff(test.want, c.Relations()); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
