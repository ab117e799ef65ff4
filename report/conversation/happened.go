package conversation

import (
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

// Usual says whether an event happens in every trial: that servers are asked whether they
// are well, and end when they are told to.
func Usual(e evidence.Event) bool {
	return e.Kind == "health" || e.Kind == "server_exit" && e.Data["asked"] == true
}

// walkFrames reads the frames that calls were made of, for visit and for what the attack
// injected into results. They are read where one of both is alone.
func (c *Conversation) walkFrames(dir evidence.Dir, visit func(*evidence.Call, evidence.Frame)) error {
	if visit == nil {
		if !c.underAttack() {
			return nil
		}
		visit = func(*evidence.Call, evidence.Frame) {}
	}
	calls := c.CallsByFrame()
	if len(calls) == 0 {
		return nil
	}
	c.Injected = map[int][]int{}
	for frame, err := range dir.Frames() {
		if err != nil {
			return err
		}
		for _, call := range calls[frame.Seq] {
			if len(frame.Injected) > 0 && frame.Seq == call.ResponseFrame {
				c.Injected[call.Seq] = frame.Injected
			}
			visit(call, frame)
		}
	}
	return nil
}

func (c *Conversation) underAttack() bool {
	attack := c.Trial.Attack
	return attack != nil && !attack.Withheld && len(attack.Injections) > 0
}

// CallsByFrame are the calls by the numbers of the frames that they were made of. A frame
// may hold several.
func (c Conversation) CallsByFrame() map[int64][]*evidence.Call {
	calls := map[int64][]*evidence.Call{}
	for _, step := range c.Steps {
		if step.Call == nil {
			continue
		}
		for _, frame := range []int64{step.Call.RequestFrame, step.Call.ResponseFrame} {
			if frame > 0 {
				calls[frame] = append(calls[frame], step.Call)
			}
		}
	}
	return calls
}

// Calls are those of the steps, in the order of their numbers.
func (c Conversation) Calls() (all []evidence.Call) {
	for _, step := range c.Steps {
		if step.Call != nil {
			all = append(all, *step.Call)
		}
	}
	slices.SortFunc(all, func(a, b evidence.Call) int { return a.Seq - b.Seq })
	return all
}

// EventCommand is the kind of the events that tell of programs of command_mocks.
const EventCommand = "command"

// Invocation says how a program of command_mocks ended that an event tells of; matched is
// false where the mock had no response for it.
func Invocation(e evidence.Event) (end string, matched bool) {
	code, _ := e.Data["exit_code"].(float64)
	if index, _ := e.Data["response_index"].(float64); index < 0 {
		return "unmatched", false
	}
	return fmt.Sprintf("exit code %.0f", code), true
}
