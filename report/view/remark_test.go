package view

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

// A call with a fault says so before all else.
func TestFaultRemark(t *testing.T) {
	t.Parallel()
	call := made(1, 0, 1, evidence.OutcomeTransportError, `{}`)
	call.Fault = evidence.FaultDrop
	c := Conversation{Steps: []Step{{Call: &call}}}
	want := []Remark{{Flag: "fault: drop", Text: "fault: drop", State: Doubtful}, {Text: "not tried again"}}
	if diff := cmp.Diff(want, c.Remarks()[1]); diff != "" {
		t.Error(diff)
	}
	turn := Turn{ModelCall: evidence.ModelCall{Outcome: evidence.ModelRefused, Fault: evidence.FaultRateLimit}}
	if got := turn.Ended(); got != "fault: rate_limit, provider error" {
		t.Error(got)
	}
}

func TestRelations(t *testing.T) {
	t.Parallel()
	again := made(7, 1, 2, evidence.OutcomeOK, `{}`)
	again.Incident, again.SameAs = 0, 2
	repeated := made(2, 2, 3, evidence.OutcomeToolError, `{}`)
	repeated.SameAs = 1
	for name, test := range map[string]struct {
		calls []evidence.Call
		want  map[int][]Remark
	}{
		"nothing failed": {calls: []evidence.Call{{Seq: 1, Outcome: evidence.OutcomeOK}}},
		"given up":       {calls: []evidence.Call{made(1, 0, 1, evidence.OutcomeTimeout, `{}`)}, want: map[int][]Remark{1: {{Text: "not tried again"}}}},
		"in vain": {
			calls: []evidence.Call{made(1, 0, 1, evidence.OutcomeToolError, `{}`), repeated},
			want:  map[int][]Remark{1: {{Text: "tried again, call 2 failed too", Call: 2}}, 2: {{Flag: "retry of 1", Text: "retry of call 1, failed too", Call: 1}}},
		},
		"cancelled": {
			calls: []evidence.Call{made(1, 0, 1, evidence.OutcomeToolError, `{}`), made(2, 1, 3, evidence.OutcomeCancelled, `{}`)},
			want:  map[int][]Remark{1: {{Text: "tried again, call 2 was cancelled", Call: 2}}, 2: {{Flag: "retry of 1", Text: "retry of call 1, was cancelled", Call: 1}}},
		},
		"one beside, then others": {
			calls: []evidence.Call{
				made(1, 0, 4, evidence.OutcomeToolError, `{}`), made(2, 1, 5, evidence.OutcomeTimeout, `{"a":1}`),
				made(3, 5, 6, evidence.OutcomeToolError, `{}`), made(4, 6, 7, evidence.OutcomeOK, `{"a":1}`), again,
			},
			want: map[int][]Remark{
				1: {{Text: "tried again with other arguments, call 4 succeeded", Call: 4}},
				2: {{Text: "failed beside call 1", Call: 1}},
				3: {{Flag: "retry of 1", Text: "retry of call 1, failed too", Call: 1}},
				4: {{Flag: "retry of 1", Text: "retry of call 1 with other arguments, succeeded", Call: 1}},
				7: {{Text: "same tool and arguments as call 2", Call: 2}},
			},
		},
		"the later one failed first": {
			calls: []evidence.Call{made(1, 0, 9, evidence.OutcomeTimeout, `{}`), made(2, 1, 2, evidence.OutcomeToolError, `{}`), made(3, 2, 3, evidence.OutcomeOK, `{}`)},
			want: map[int][]Remark{
				1: {{Text: "failed beside call 2", Call: 2}}, 2: {{Text: "tried again, call 3 succeeded", Call: 3}}, 3: {{Flag: "retry of 2", Text: "retry of call 2, succeeded", Call: 2}},
			},
		},
		"without ends": {
			calls: []evidence.Call{made(1, 0, 0, evidence.OutcomeTransportError, `{}`), made(2, 1, 0, evidence.OutcomeTransportError, `{}`)},
			want:  map[int][]Remark{1: {{Text: "not tried again"}}, 2: {{Text: "failed beside call 1", Call: 1}}},
		},
	} {
		if test.want == nil {
			test.want = map[int][]Remark{}
		}
		if diff := cmp.Diff(test.want, relations(test.calls)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// Each oddity of a call has a flag, and a phrase that says more.
func TestRemarks(t *testing.T) {
	t.Parallel()
	odd := evidence.Call{
		Seq: 1, Origin: evidence.OriginOutOfBand, Known: new(false), Valid: new(false), Invalid: []string{"id: 1 is no string", "sku is missing"},
		Rounds: 2, Notes: []string{"late answer: frame 9"}, Outcome: evidence.OutcomeOK,
	}
	c := Conversation{
		Gateway: true, Steps: []Step{{Call: &odd}, {Call: &evidence.Call{Seq: 2, Origin: evidence.OriginModel, Turn: 3}}, {Call: &evidence.Call{Seq: 4}}},
		Injected:  map[int][]int{1: {1, 2}},
		Narration: &evidence.Narration{Unreported: []int{2}, Differs: []evidence.Difference{{Claim: evidence.Claim{Call: 1}, In: "result", Claimed: "a", Actual: "b"}}},
	}
	want := map[int][]Remark{
		1: {
			{Flag: "out of band", Text: "out of band: no model asked for it", State: Bad},
			{Flag: "injected", Text: "injected: injections 1, 2 of the attack in its result", State: Bad},
			{Flag: "unknown tool", Text: "no such tool was listed", State: Doubtful},
			{Flag: "invalid arguments", Text: "not as the tool's schema wants it: id: 1 is no string; sku is missing", State: Doubtful},
			{Text: "the server asked for input 2 times"},
			{Flag: "misreported", Text: "misreported by the agent: its result", More: "it says a, and was b", State: Bad},
			{Text: "late answer: frame 9"},
		},
		2: {{Text: "asked for by model call 3"}, {Flag: "not reported", Text: "not reported by the agent", State: Bad}},
		4: {{Text: "whether a model asked for it is not known"}},
	}
	if diff := cmp.Diff(want, c.Remarks()); diff != "" {
		t.Error(diff)
	}
	c.Gateway = false
	if said := c.Remarks()[4]; len(said) != 0 {
		t.Errorf("without a gateway: %+v", said)
	}
}
