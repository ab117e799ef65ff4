package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/model/dialect"
)

// A step by one letter: t and c have a time, o and x have none.
func TestTellingsStandBehindWhatIsReportedBefore(t *testing.T) {
	for _, test := range []struct{ name, steps, reported, want string }{
		{"between calls", "c1 c2", "c1@1 o@2 c2@3", "c1 o2 c2"},
		{"before all", "c1", "o@1 c1@2", "o1 c1"},
		{"behind all", "c1", "c1@1 o@2 x@3", "c1 o2 x3"},
		{"behind the turn that asked", "t1:a c1 t2:b", "c1@1 o@2:b", "t1 c1 t2 o2"},
		{"never before what is told earlier", "t1:a c1", "c1@1 o@2:a", "t1 c1 o2"},
		{"calls told out of order", "c1 c2 c3", "c3@1 o@2 c1@3 c2@4", "c1 c2 c3 o2"},
		{"calls of which no place is known", "c1 c2", "o@1 x@2", "o1 x2 c1 c2"},
		{"nothing told", "t1:a c1", "", "t1 c1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			steps, calls := laidOut(test.steps)
			uses, claims := reportedOf(test.reported, calls)
			var got []string
			own, reported := transcriptEntries(uses, claims, nil)
			for _, step := range insert(steps, own, reported) {
				got = append(got, nameOf(step))
			}
			if have := strings.Join(got, " "); have != test.want {
				t.Errorf("got %s, want %s", have, test.want)
			}
		})
	}
}

func laidOut(written string) (steps []Step, calls map[int]*evidence.Call) {
	calls = map[int]*evidence.Call{}
	for i, word := range strings.Fields(written) {
		name, id, _ := strings.Cut(word, ":")
		start := time.Unix(int64(i), 0)
		var number int
		_, _ = fmt.Sscanf(name[1:], "%d", &number)
		if name[0] == 'c' {
			calls[number] = &evidence.Call{Seq: number, Start: start}
			steps = append(steps, Step{Call: calls[number]})
			continue
		}
		turn := &Turn{Uses: []Use{{Use: dialect.Use{ID: id}}}}
		turn.Seq, turn.Start = number, start
		steps = append(steps, Step{Turn: turn})
	}
	return steps, calls
}

func reportedOf(written string, calls map[int]*evidence.Call) (uses []capture.Use, claims []evidence.Claim) {
	for _, word := range strings.Fields(written) {
		name, place, _ := strings.Cut(word, "@")
		place, id, _ := strings.Cut(place, ":")
		var reported, number int
		_, _ = fmt.Sscanf(place, "%d", &reported)
		_, _ = fmt.Sscanf(name[1:], "%d", &number)
		switch name[0] {
		case 'c':
			uses = append(uses, capture.Use{Call: calls[number], Reported: reported})
		case 'o':
			uses = append(uses, capture.Use{Source: capture.SourceBuiltin, ID: id, Reported: reported})
		default:
			claims = append(claims, evidence.Claim{Number: reported, ID: id})
		}
	}
	return uses, claims
}

func nameOf(s Step) string {
	switch {
	case s.Turn != nil:
		return fmt.Sprintf("t%d", s.Turn.Seq)
	case s.Call != nil:
		return fmt.Sprintf("c%d", s.Call.Seq)
	case s.Own != nil:
		return fmt.Sprintf("o%d", s.Own.Reported)
	}
	return fmt.Sprintf("x%d", s.Claim.Number)
}

func TestMessagesStandWhereTheyWereSaid(t *testing.T) {
	steps, calls := laidOut("c1 c2")
	uses, _ := reportedOf("c1@1 c2@2", calls)
	own, reported := transcriptEntries(uses, nil, messagesIn([]evidence.TranscriptEvent{
		{Type: "assistant.message", Content: "first"}, {Type: "tool.execution_start"}, {Type: "assistant.message", Content: "between"},
		{Type: "tool.execution_start"}, {Type: "assistant.message"}, {Type: "assistant.message", Content: "last"},
	}))
	var got []string
	for _, step := range insert(steps, own, reported) {
		if step.Said != "" {
			got = append(got, step.Said)
		} else {
			got = append(got, nameOf(step))
		}
	}
	if have := strings.Join(got, " "); have != "first c1 between c2 last" {
		t.Error(have)
	}
}
