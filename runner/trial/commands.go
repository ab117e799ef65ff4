package trial

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/cmdmock"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	// maxPlayed is how many invocations are answered in a trial.
	maxPlayed = 10_000
)

// commands answers for the programs that a trial mocks.
type commands struct {
	*recording
	workspace string // where the agent has it

	mu     sync.Mutex
	played []evidence.CommandInvocation // guarded by mu
}

// ServeHTTP answers a program in the agent's container, and puts what it was started with on record.
// The record is of what was asked here: no file in the container counts.
func (c *commands) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, err := cmdmock.ReadInvocation(r.Body)
	i := slices.IndexFunc(c.plan.Commands, func(mock cmdmock.Command) bool { return mock.Name == in.Command })
	if err != nil || i < 0 || r.Method != http.MethodPost {
		http.Error(w, fmt.Sprintf("cannot be answered: %v", err), http.StatusBadRequest)
		return
	}
	answer := c.plan.Commands[i].Answer(in, c.workspace)
	done := evidence.CommandInvocation{Command: in.Command, Args: in.Args, ExitCode: answer.ExitCode, ResponseIndex: answer.Response}
	if !c.keep(done) {
		http.Error(w, "the agent has started more commands than it may", http.StatusTooManyRequests)
		return
	}
	c.acted.Store(true)
	c.rec.Event(evidence.Event{
		Kind: "command", Where: sandbox.Agent, Message: strings.Join(append([]string{in.Command}, in.Args...), " "),
		Data: map[string]any{"args": in.Args, "exit_code": answer.ExitCode, "response_index": answer.Response},
	})
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// keep reports whether there is room for it.
func (c *commands) keep(done evidence.CommandInvocation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	args, _ := json.Marshal(done.Args)
	if len(c.played) == maxPlayed || !c.shares.Agent.Take(3*evidence.CostOf(args)) {
		return false
	}
	c.played = append(c.played, done)
	return true
}

// end puts the invocations on the trial's record, and what of them was not expected.
func (c *commands) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.Commands = c.played
	for _, mock := range c.plan.Commands {
		count := 0
		for _, done := range c.played {
			if done.Command == mock.Name {
				count++
			}
		}
		if mock.ExpectCalls != nil && count != *mock.ExpectCalls && c.record.Miscalled == "" {
			c.record.Miscalled = fmt.Sprintf("command %q was called %d time(s), and is expected to be called %d time(s)", mock.Name, count, *mock.ExpectCalls)
		}
	}
}
