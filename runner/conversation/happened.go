package conversation

import (
	"slices"

	"github.com/waza-isolate/waza/runner/evidence"
)

// happened adds what happened beside frames, but for what happens in every trial: that
// servers are asked whether they are well, and end when they are told to.
func (c *Conversation) happened(dir evidence.Dir) error {
	events, err := dir.Events()
	c.Events = slices.DeleteFunc(events, func(e evidence.Event) bool {
		return e.Kind == "health" || e.Kind == "server_exit" && e.Data["asked"] == true
	})
	return err
}

// underAttack adds which results had something injected. Frames are read where that
// can be alone.
func (c *Conversation) underAttack(dir evidence.Dir) error {
	attack := c.Trial.Attack
	if attack == nil || attack.Withheld || len(attack.Injections) == 0 {
		return nil
	}
	in := map[int64][]int{}
	for frame, err := range dir.Frames() {
		if err != nil {
			return err
		}
		if len(frame.Injected) > 0 {
			in[frame.Seq] = frame.Injected
		}
	}
	c.Injected = map[int][]int{}
	for _, call := range c.Calls() {
		if numbers := in[call.ResponseFrame]; len(numbers) > 0 {
			c.Injected[call.Seq] = numbers
		}
	}
	return nil
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
