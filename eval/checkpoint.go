package eval

import (
	"cmp"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// Checkpoint is graders of the state between two turns of a conversation.
type Checkpoint struct {
	_ struct{} `unknown:"warn"`

	AfterTurn int      `json:"after_turn" min:"1" jsonschema:"turn after which they judge: 1 is the prompt's, and follow-up prompts have the next"`
	Graders   []Grader `json:"graders" jsonschema:"graders, as those of a task"`
	OnFailure string   `json:"on_failure,omitempty" enum:"continue stop" jsonschema:"continue only records what they say; stop ends the conversation where one does not pass, and the trial does not pass; default continue"`
}

// ResolvedCheckpoint is a checkpoint whose graders are found.
type ResolvedCheckpoint struct {
	AfterTurn int                   `json:"after_turn"`
	Graders   []evidence.GraderSpec `json:"graders"`
	Stop      bool                  `json:"stop,omitempty"`
}

// checkpoints are the task's, by turn. Their graders have names of their own.
func (r resolver) checkpoints() []ResolvedCheckpoint {
	var all []ResolvedCheckpoint
	turns := r.task.Inputs.maxTurns()
	for i, c := range r.task.Checkpoints {
		at := strictyaml.Path{"checkpoints", i, "after_turn"}
		switch {
		case slices.ContainsFunc(all, func(other ResolvedCheckpoint) bool { return other.AfterTurn == c.AfterTurn }):
			r.doc.Problemf(at, "there is a checkpoint after turn %d already; add its graders to that", c.AfterTurn)
		case c.AfterTurn > turns:
			r.doc.Problemf(at, "%s is %d, and the conversation has %d turn(s)", at, c.AfterTurn, turns)
		}
		g := graders{doc: r.doc, eval: r.loader.eval, update: r.loader.opts.UpdateSnapshots, seen: map[string]string{}}
		g.add(c.Graders, strictyaml.Path{"checkpoints", i, "graders"}, "")
		g.checkServers(r.serverNames())
		all = append(all, ResolvedCheckpoint{AfterTurn: c.AfterTurn, Graders: g.specs, Stop: c.OnFailure == "stop"})
	}
	slices.SortFunc(all, func(a, b ResolvedCheckpoint) int { return cmp.Compare(a.AfterTurn, b.AfterTurn) })
	return all
}

// maxTurns is how many turns a conversation has at most.
func (in Inputs) maxTurns() int {
	if in.Responder != nil {
		return 1 + in.Responder.MaxFollowups
	}
	return 1 + len(in.FollowUps)
}
