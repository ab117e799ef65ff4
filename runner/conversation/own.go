package conversation

import (
	"slices"

	"github.com/waza-isolate/waza/runner/capture"
	"github.com/waza-isolate/waza/runner/evidence"
)

// telling is what the transcript alone tells of: a use of a tool of the agent's own, or a
// claim of a call that was never made.
type telling struct {
	number int    // among the tool uses that the transcript tells, from 1
	id     string // the agent's, which the model's answer has too where that asked for it
	step   Step
}

// insert puts what the transcript alone tells between the steps that have a time. A
// transcript has none: a telling stands behind those told before it, and behind the turn
// of a model that asked for it.
func insert(steps []Step, uses []capture.Use, claims []evidence.Claim) []Step {
	told := map[*evidence.Call]int{}
	var own []telling
	for _, use := range uses {
		if use.Call != nil {
			told[use.Call] = use.Told
		} else {
			own = append(own, telling{use.Told, use.ID, Step{Own: &use}})
		}
	}
	for _, claim := range claims {
		own = append(own, telling{claim.Number, claim.ID, Step{Claim: &claim}})
	}
	slices.SortStableFunc(own, func(a, b telling) int { return a.number - b.number })
	asked := turnsByUse(steps)
	all := make([]Step, 0, len(steps)+len(own))
	for _, behind := range places(steps, own, told, asked) {
		all = append(all, behind...)
	}
	return all
}

// places are the steps that have a time, each with the tellings behind it; before the
// first is a place too.
func places(steps []Step, own []telling, told map[*evidence.Call]int, asked map[string]int) [][]Step {
	at := make([][]Step, len(steps)+1)
	for i, step := range steps {
		at[i+1] = append(at[i+1], step)
	}
	// From the front: how far the steps go that are told before a telling.
	place, next := 0, byTelling(steps, told)
	for _, one := range own {
		for len(next) > 0 && next[0].number < one.number {
			place, next = max(place, next[0].place), next[1:]
		}
		if turn, ok := asked[one.id]; ok && one.id != "" {
			place = max(place, turn)
		}
		at[place] = append(at[place], one.step)
	}
	return at
}

// placed is a call that the transcript tells of.
type placed struct{ number, place int }

func byTelling(steps []Step, told map[*evidence.Call]int) (all []placed) {
	for i, step := range steps {
		if number := told[step.Call]; step.Call != nil && number > 0 {
			all = append(all, placed{number, i + 1})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return a.number - b.number })
	return all
}

// turnsByUse is the place of the turn that asked for a use, by the use's id.
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
