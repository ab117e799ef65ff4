package view

import (
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

// transcriptEntry is an entry that only the transcript has.
type transcriptEntry struct {
	place int    // twice the number of a tool use in the transcript, from 1; plus one for an entry after that use
	id    string // the agent's ID, which is also in the model response that asked for the use
	step  Step
}

// transcriptEntries returns the entries that only the transcript has, in order: uses of the agent's own
// tools, claims of calls that were never made, and messages. reported maps the calls that the transcript has
// to their positions.
func transcriptEntries(uses []capture.Use, claims []evidence.Claim, messages []transcriptEntry) (own []transcriptEntry, reported map[*evidence.Call]int) {
	reported = map[*evidence.Call]int{}
	for _, use := range uses {
		if use.Call != nil {
			reported[use.Call] = 2 * use.Reported
		} else {
			own = append(own, transcriptEntry{2 * use.Reported, use.ID, Step{Own: &use}})
		}
	}
	for _, claim := range claims {
		own = append(own, transcriptEntry{2 * claim.Number, claim.ID, Step{Claim: &claim}})
	}
	own = append(own, messages...)
	slices.SortStableFunc(own, func(a, b transcriptEntry) int { return a.place - b.place })
	return own, reported
}

// messagesIn returns the agent's messages in its transcript.
func messagesIn(transcript []evidence.TranscriptEvent) (messages []transcriptEntry) {
	uses := 0
	for _, event := range transcript {
		switch {
		case event.Type == "tool.execution_start":
			uses++
		case event.Type == evidence.AssistantMessage && event.Content != "":
			messages = append(messages, transcriptEntry{2*uses + 1, "", Step{Said: event.Content}})
		}
	}
	return messages
}

// insert inserts the entries that only the transcript has between the steps, whose times are known. An entry
// has no time: it is placed after the steps that precede it in the transcript, and after the model turn that
// asked for it.
func insert(steps []Step, own []transcriptEntry, reported map[*evidence.Call]int) []Step {
	all := make([]Step, 0, len(steps)+len(own))
	for _, behind := range places(steps, own, reported, turnsByUse(steps)) {
		all = append(all, behind...)
	}
	return all
}

// places returns the steps, each with the entries that follow it. The first element holds the entries before
// the first step.
func places(steps []Step, own []transcriptEntry, reported map[*evidence.Call]int, asked map[string]int) [][]Step {
	at := make([][]Step, len(steps)+1)
	for i, step := range steps {
		at[i+1] = append(at[i+1], step)
	}
	// Scan forward: find the last step reported before an entry.
	place, next := 0, reportedCalls(steps, reported)
	for _, one := range own {
		for len(next) > 0 && next[0].reported < one.place {
			place, next = max(place, next[0].place), next[1:]
		}
		if turn, ok := asked[one.id]; ok && one.id != "" {
			place = max(place, turn)
		}
		at[place] = append(at[place], one.step)
	}
	return at
}

// placed is a call that the transcript has too.
type placed struct{ reported, place int }

func reportedCalls(steps []Step, reported map[*evidence.Call]int) (all []placed) {
	for i, step := range steps {
		if number := reported[step.Call]; step.Call != nil && number > 0 {
			all = append(all, placed{number, i + 1})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return a.reported - b.reported })
	return all
}

// turnsByUse returns the positions of the turns that asked for uses, by the use's id.
func turnsByUse(steps []Step) map[string]int {
	places := map[string]int{}
	for i, step := range steps {
		if step.Turn == nil {
			continue
		}
		for _, use := range step.Turn.Uses {
			if _, known := places[use.ID]; !known {
				places[use.ID] = i + 1
			}
		}
	}
	return places
}
