package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// Bounds of what the API says of a trial.
const (
	maxCalls = 10_000
	maxValue = 64 << 10 // bytes of arguments, a result or an error that are told
	maxFiles = 1000
)

// TrialDetail is the answer to /api/v1/runs/ID/trials/TASK/N.
type TrialDetail struct {
	Run         string          `json:"run"`                  // the run's id
	Task        string          `json:"task"`                 // the task's id
	TaskName    string          `json:"task_name"`            // the task's name
	Number      int             `json:"number"`               // from 1
	Attempt     int             `json:"attempt"`              // from 1
	Agent       string          `json:"agent"`                // the executor
	Prompt      string          `json:"prompt"`               // that the agent was given
	Started     time.Time       `json:"started"`              // UTC
	Ended       time.Time       `json:"ended"`                // UTC
	Outcome     evidence.Class  `json:"outcome"`              // pass, fail, timeout, agent_error, error, server_error or infra
	Reason      evidence.Reason `json:"reason,omitempty"`     // for that, in a word; left out of one that passed
	Message     string          `json:"message,omitempty"`    // likewise, in a sentence; left out where none is told
	FinalOutput string          `json:"final_output"`         // of the agent
	Verdicts    []VerdictLine   `json:"verdicts"`             // of its graders
	Calls       []CallLine      `json:"calls"`                // MCP calls, in their order; at most 10000
	CallsLeft   string          `json:"calls_left,omitempty"` // why calls are left out; left out where none are
	Gaps        []string        `json:"gaps,omitempty"`       // evidence that is missing, and why; left out where none is
	Files       []FileLine      `json:"files"`                // that the trial left
}

// VerdictLine is a grader's verdict.
type VerdictLine struct {
	Name     string                 `json:"name"`     // the grader's
	Type     string                 `json:"type"`     // the grader's
	Result   evidence.VerdictResult `json:"result"`   // pass, fail or error
	Score    float64                `json:"score"`    // from 0 to 1
	Weight   float64                `json:"weight"`   // among the trial's graders
	Feedback string                 `json:"feedback"` // why, in a sentence or more
}

// CallLine is an MCP call. What is a JSON text was captured, and is told as a string.
type CallLine struct {
	Seq        int              `json:"seq"`                 // from 1
	Server     string           `json:"server"`              // its name
	Tool       string           `json:"tool"`                // its name
	Outcome    evidence.Outcome `json:"outcome"`             // ok, tool_error, protocol_error, transport_error, timeout, cancelled or abandoned
	Origin     evidence.Origin  `json:"origin,omitempty"`    // whether a model asked for it; left out where that is not known
	Start      time.Time        `json:"start"`               // UTC
	DurationMS int64            `json:"duration_ms"`         // up to the answer; 0 without one
	Arguments  *CapturedJSON    `json:"arguments,omitempty"` // left out where there were none
	Result     *CapturedJSON    `json:"result,omitempty"`    // left out where there was none
	Error      *CapturedJSON    `json:"error,omitempty"`     // left out where there was none
}

// CapturedJSON is a JSON text that crossed the wire.
type CapturedJSON struct {
	Text  string `json:"text"`            // its beginning, up to 65536 bytes
	Bytes int    `json:"bytes,omitempty"` // of all of it; left out where that is no more
}

// FileLine is a file of a trial.
type FileLine struct {
	Path  string `json:"path"`  // from the run's directory; /runs/ID/files/PATH serves it
	Bytes int64  `json:"bytes"` // its size
}

// trial reads what the API says of a trial that has ended.
func (s *Server) trial(ctx context.Context, run, task, numbered string) (d TrialDetail, err error) {
	at, within, err := s.trialDir(ctx, run, task, numbered)
	if err != nil {
		return d, err
	}
	p, err := openPlace(s.shelf.dir, run)
	if err != nil {
		return d, err
	}
	defer func() { _ = p.Close() }()
	var t evidence.Trial
	var v evidence.Verdicts
	err = errors.Join(readInto(p, within+"/"+evidence.TrialFile, &t), readInto(p, within+"/"+evidence.VerdictsFile, &v))
	if err != nil {
		return d, err
	}
	d = TrialDetail{
		Run: run, Task: t.Task, TaskName: t.TaskName, Number: t.Number, Attempt: t.Attempt, Agent: t.Executor, Prompt: t.Prompt,
		Started: t.Started, Ended: t.Ended, Outcome: v.Class, Reason: v.Reason, Message: v.Message, FinalOutput: t.FinalOutput,
		Verdicts: []VerdictLine{}, Calls: []CallLine{}, Gaps: t.Gaps, Files: filesOf(p, within),
	}
	for _, one := range v.Verdicts {
		d.Verdicts = append(d.Verdicts, VerdictLine{one.Name, one.Type, one.Result, one.Score, one.Weight, one.Feedback})
	}
	d.addCalls(p, at, within)
	return d, nil
}

func readInto(p *place, name string, v any) error {
	data, err := p.read(name)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path.Base(name), err)
	}
	return nil
}

// addCalls adds the calls, as far as they can be read and told.
func (d *TrialDetail) addCalls(p *place, at evidence.Dir, within string) {
	info, err := p.stat(within + "/" + evidence.CallsFile)
	if err == nil && info.Size() > maxDocument {
		err = fmt.Errorf("it has %d bytes, and at most %d are read", info.Size(), maxDocument)
	}
	var calls []evidence.Call
	if err == nil {
		calls, err = at.Calls()
	}
	switch {
	case err != nil:
		d.CallsLeft = problemWith(evidence.CallsFile, err)
	case len(calls) > maxCalls:
		d.CallsLeft = fmt.Sprintf("There are %d calls.", len(calls))
	}
	for _, c := range calls[:min(len(calls), maxCalls)] {
		d.Calls = append(d.Calls, callLine(c))
	}
}

func callLine(c evidence.Call) CallLine {
	line := CallLine{
		Seq: c.Seq, Server: c.Server, Tool: c.Tool, Outcome: c.Outcome, Origin: c.Origin, Start: c.Start,
		Arguments: captured(c.Arguments), Result: captured(c.Result), Error: captured(c.Error),
	}
	if !c.End.IsZero() {
		line.DurationMS = c.End.Sub(c.Start).Milliseconds()
	}
	return line
}

func captured(text json.RawMessage) *CapturedJSON {
	switch {
	case len(text) == 0:
		return nil
	case len(text) <= maxValue:
		return &CapturedJSON{Text: string(text)}
	}
	return &CapturedJSON{Text: strings.ToValidUTF8(string(text[:maxValue]), ""), Bytes: len(text)}
}

// filesOf lists the files of a trial, the first of them where there are many.
func filesOf(p *place, within string) []FileLine {
	all := []FileLine{}
	_ = p.walk(within, maxEntries, func(name string, entry fs.DirEntry) error {
		switch {
		case !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), "."):
			return nil
		case len(all) == maxFiles:
			return fs.SkipAll
		}
		if info, err := p.root.Lstat(name); err == nil {
			all = append(all, FileLine{name, info.Size()})
		}
		return nil
	})
	return all
}
