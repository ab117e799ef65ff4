package conversation

import (
	"slices"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

// telling is a step that stands in the transcript alone.
type telling struct {
	place int    // of a tool use twice its number among those told, from 1; one more is behind it
	id    string // the agent's, which the model's answer has too where that asked for it
	step  Step
}

// tellings returns uses of tools of the agent's own, claims of calls that were never made,
// and, where messages is set, what the agent said. Calls are not among them: reported
// has the places of those that are in the transcript.
func tellings(uses []capture.Use, claims []evidence.Claim, messages []telling) (own []telling, reported map[*evidence.Call]int) {
	reported = map[*evidence.Call]int{}
	for _, use := range uses {
		if use.Call != nil {
			reported[use.Call] = 2 * use.Reported
		} else {
			own = append(own, telling{2 * use.Reported, use.ID, Step{Own: &use}})
		}
	}
	for _, claim := range claims {
		own = append(own, telling{2 * claim.Number, claim.ID, Step{Claim: &claim}})
	}
	own = append(own, messages...)
	slices.SortStableFunc(own, func(a, b telling) int { return a.place - b.place })
	return own, reported
}

// said returns the agent's messages in its transcript.
func said(transcript []evidence.TranscriptEvent) (messages []telling) {
	uses := 0
	for _, event := range transcript {
		switch {
		case event.Type == "tool.execution_start":
			uses++
		case event.Type == evidence.AssistantMessage && event.Content != "":
			messages = append(messages, telling{2*uses + 1, "", Step{Said: event.Content}})
		}
	}
	return messages
}

// insert puts what is in the transcript alone between the steps that have a time. A
// transcript has none: a telling stands behind those told before it, and behind the turn
// of a model that asked for it.
func insert(steps []Step, own []telling, reported map[*evidence.Call]int) []Step {
	all := make([]Step, 0, len(steps)+len(own))
	for _, behind := range places(steps, own, reported, turnsByUse(steps)) {
		all = append(all, behind...)
	}
	return all
}

// places returns the steps that have a time, each with the tellings behind it; before the
// first is a place too.
func places(steps []Step, own []telling, reported map[*evidence.Call]int, asked map[string]int) [][]Step {
	at := make([][]Step, len(steps)+1)
	for i, step := range steps {
		at[i+1] = append(at[i+1], step)
	}
	// From the front: how far the steps go that are told before a telling.
	place, next := 0, byTelling(steps, reported)
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

// placed is a call that stands in the transcript too.
type placed struct{ reported, place int }

func byTelling(steps []Step, reported map[*evidence.Call]int) (all []placed) {
	for i, step := range steps {
		if number := reported[step.Call]; step.Call != nil && number > 0 {
			all = append(all, placed{number, i + 1})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return a.reported - b.reported })
	return all
}

// turnsByUse returns the place of the turn that asked for a use, by the use's id.
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
