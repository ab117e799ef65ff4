package capture_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/waza-isolate/waza/evidence"
)

const (
	needsInput = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"q":{}},"requestState":"S1"}}`
	retry      = `{"id":2,"method":"tools/call","params":{"name":"get","arguments":{ "n":1 },"inputResponses":{"q":{}},"requestState":"S1"}}`
	needsMore  = `{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","requestState":"S2"}}`
	retryAgain = `{"id":3,"method":"tools/call","params":{"name":"get","arguments":{"n":1},"requestState":"S2"}}`
)

func complete(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete"}}`
}

func TestRounds(t *testing.T) {
	type call struct {
		Outcome       evidence.Outcome
		Rounds        int
		Request, Last int64
		Notes         []string
	}
	for _, test := range []struct {
		name   string
		frames []evidence.Frame
		want   []call
	}{
		{
			"one round", []evidence.Frame{up(ask), down(needsInput), up(retry), down(complete("2"))},
			[]call{{evidence.OutcomeOK, 1, 1, 4, nil}},
		},
		{
			"two rounds",
			[]evidence.Frame{up(ask), down(needsInput), up(retry), down(needsMore), up(retryAgain), down(complete("3"))},
			[]call{{evidence.OutcomeOK, 2, 1, 6, nil}},
		},
		{
			"on another connection", []evidence.Frame{up(ask), down(needsInput), on("d", up(retry)), on("d", down(complete("2")))},
			[]call{{evidence.OutcomeOK, 1, 1, 4, nil}},
		},
		{
			"abandoned", []evidence.Frame{up(ask), down(needsInput)},
			[]call{{evidence.OutcomeCancelled, 1, 1, 2, []string{"round_abandoned"}}},
		},
		{
			"retried with other arguments",
			[]evidence.Frame{up(ask), down(needsInput), up(strings.Replace(retry, "1 }", "2 }", 1)), down(complete("2"))},
			[]call{{evidence.OutcomeCancelled, 1, 1, 2, []string{"round_abandoned"}}, {evidence.OutcomeOK, 0, 3, 4, []string{"round_unknown: frame 3"}}},
		},
		{
			"retried twice with one state",
			[]evidence.Frame{up(ask), down(needsInput), up(retry), down(complete("2")), up(strings.Replace(retry, `"id":2`, `"id":3`, 1)), down(complete("3"))},
			[]call{{evidence.OutcomeOK, 1, 1, 4, nil}, {evidence.OutcomeOK, 0, 5, 6, []string{"round_unknown: frame 5"}}},
		},
		{
			"the retry is cancelled",
			[]evidence.Frame{up(ask), down(needsInput), up(retry), up(strings.Replace(cancel, "1}", "2}", 1))},
			[]call{{evidence.OutcomeCancelled, 1, 1, 2, nil}},
		},
		{
			"a session knows no rounds",
			[]evidence.Frame{up(`{"id":0,"method":"initialize"}`), down(`{"jsonrpc":"2.0","id":0,"result":{}}`), up(ask), down(needsInput)},
			[]call{{evidence.OutcomeOK, 0, 3, 4, nil}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := calls(t, test.frames...)
			var got []call
			for _, c := range result.Calls {
				got = append(got, call{c.Outcome, c.Rounds, c.RequestFrame, c.ResponseFrame, c.Notes})
			}
			if diff := cmp.Diff(test.want, got); diff != "" || len(result.Gaps) > 0 {
				t.Errorf("gaps %v\n%s", result.Gaps, diff)
			}
		})
	}
}
