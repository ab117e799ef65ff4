package trial

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/cmdmock"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	// maxPlayed is how many invocations are answered in a trial.
	maxPlayed = 10_000
)

// putCommands puts our executable into the agent's box under the names of what it plays.
func (tr *trialRun) putCommands(ctx context.Context) error {
	if len(tr.plan.Commands) == 0 {
		return nil
	}
	var tree bytes.Buffer
	out := tar.NewWriter(&tree)
	guest := tr.sandbox.Layout(sandbox.Agent).Guest
	var errs []error
	for _, c := range tr.plan.Commands {
		errs = append(errs, out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: path.Base(plan.CommandsDir) + "/" + c.Name, Linkname: guest, Mode: 0o777}))
	}
	if err := errors.Join(append(errs, out.Close())...); err != nil {
		return err
	}
	return tr.sandbox.Put(ctx, sandbox.Agent, sandbox.HomeDir, &tree)
}

// played is the invocations of a trial.
type played struct {
	mu  sync.Mutex
	all []evidence.CommandInvocation // guarded by mu
}

// playCommand answers a program in the agent's box, and puts what it was started with on record.
// The record is of what was asked here: no file in the box counts.
func (tr *trialRun) playCommand(w http.ResponseWriter, r *http.Request) {
	in, err := cmdmock.ReadInvocation(r.Body)
	i := slices.IndexFunc(tr.plan.Commands, func(c cmdmock.Command) bool { return c.Name == in.Command })
	if err != nil || i < 0 || r.Method != http.MethodPost {
		http.Error(w, fmt.Sprintf("cannot be answered: %v", err), http.StatusBadRequest)
		return
	}
	answer := tr.plan.Commands[i].Answer(in, tr.sandbox.Layout(sandbox.Agent).Workspace)
	done := evidence.CommandInvocation{Command: in.Command, Args: in.Args, ExitCode: answer.ExitCode, ResponseIndex: answer.Response}
	if !tr.keepInvocation(done) {
		http.Error(w, "the agent has started more commands than it may", http.StatusTooManyRequests)
		return
	}
	tr.acted.Store(true)
	tr.rec.Event(evidence.Event{
		Kind: "command", Where: sandbox.Agent, Message: strings.Join(append([]string{in.Command}, in.Args...), " "),
		Data: map[string]any{"args": in.Args, "exit_code": answer.ExitCode, "response_index": answer.Response},
	})
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// keepInvocation reports whether there is room for it.
func (tr *trialRun) keepInvocation(done evidence.CommandInvocation) bool {
	tr.played.mu.Lock()
	defer tr.played.mu.Unlock()
	args, _ := json.Marshal(done.Args)
	if len(tr.played.all) == maxPlayed || !tr.shares.Agent.Take(3*evidence.CostOf(args)) {
		return false
	}
	tr.played.all = append(tr.played.all, done)
	return true
}

// keepPlayed puts the invocations on the trial's record, and what of them was not expected.
func (tr *trialRun) keepPlayed() {
	tr.played.mu.Lock()
	defer tr.played.mu.Unlock()
	tr.record.Commands = tr.played.all
	for _, c := range tr.plan.Commands {
		count := 0
		for _, done := range tr.played.all {
			if done.Command == c.Name {
				count++
			}
		}
		if c.ExpectCalls != nil && count != *c.ExpectCalls && tr.record.Miscalled == "" {
			tr.record.Miscalled = fmt.Sprintf("command %q was called %d time(s), and is expected to be called %d time(s)", c.Name, count, *c.ExpectCalls)
		}
	}
}
