// Package runtest creates run directories for tests without an engine, and compares runs with those
// that play them. It computes no figures and no verdicts itself.
package runtest

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/runner"
)

// Run is a run directory being created.
type Run struct {
	Dir    string
	Record runner.Record

	t testing.TB
}

// Dir returns a new directory for runs, in memory if possible, since tests do not depend on
// the time to sync thousands of files to disk.
func Dir(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	dir, err := os.MkdirTemp(memory, "runtest-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// New starts a run in dir. Its tasks are those passed to [Run.Trial].
func New(t testing.TB, dir, eval string) *Run {
	return &Run{Dir: dir, t: t, Record: runner.Record{
		ID: "20260102-030405-made-" + eval, Waza: "test", Started: time.Now().UTC(), Network: "bridge",
		Choices: runner.Choices{Isolated: true, Pace: runner.Pace{Workers: 1}}, Eval: runner.EvalRecord{Path: "eval.yaml", Name: eval, Executor: "script", TimeoutSeconds: 60},
	}}
}

// Trial records one trial by calling does. Trials of a task are numbered in order.
func (r *Run) Trial(task string, does func(*Trial)) {
	r.t.Helper()
	if !slices.ContainsFunc(r.Record.Tasks, func(t runner.TaskRecord) bool { return t.ID == task }) {
		r.Record.Tasks = append(r.Record.Tasks, runner.TaskRecord{ID: task, Name: task})
	}
	number := 1
	for r.has(task, number) {
		number++
	}
	r.Record.Trials = max(r.Record.Trials, number)
	dir := runner.TrialDir(r.Dir, task, number)
	rec, err := evidence.Create(string(dir), &secret.Set{}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	t := &Trial{Recorder: rec, t: r.t, asked: map[string]int{}, Info: evidence.Trial{
		Run: r.Record.ID, Task: task, TaskName: task, Number: number, Attempt: 1, Executor: "script", Started: rec.Now(), AgentStart: rec.Now(),
	}}
	does(t)
	t.end(dir)
}

func (r *Run) has(task string, number int) bool {
	_, err := runner.TrialDir(r.Dir, task, number).Trial()
	return err == nil
}

// End grades the run, writes its results and digests.
func (r *Run) End() {
	r.t.Helper()
	r.Record.Ended = time.Now().UTC()
	err := gradeTrials(r.Dir)
	if err == nil {
		_, err = runner.WriteResults(r.Dir, r.Record)
	}
	if err == nil {
		err = r.Record.WriteDigests(r.Dir)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// gradeTrials writes the verdicts of all trials in a run directory.
func gradeTrials(dir string) error {
	trials, err := runner.Trials(dir)
	if err != nil {
		return err
	}
	for _, dir := range trials {
		trial, err := dir.Trial()
		if err != nil {
			return err
		}
		verdicts, err := grading.Grade(dir, trial)
		if err == nil {
			err = dir.WriteVerdicts(verdicts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Trial is a trial being recorded.
type Trial struct {
	*evidence.Recorder
	// Info is written to trial.json. Servers are added when they are first used.
	Info evidence.Trial

	t          testing.TB
	asked      map[string]int // requests to each server
	transcript []evidence.TranscriptEvent
}

// Tool is a tool listed by a server.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// Serve makes a server list its tools, as at the start of a session.
func (t *Trial) Serve(server string, tools ...Tool) {
	for i := range tools {
		if tools[i].InputSchema == nil {
			tools[i].InputSchema = json.RawMessage(`{"type":"object"}`)
		}
	}
	t.Ask(server, "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "made", "version": "1"}},
		"result", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": server, "version": "1"}})
	t.Ask(server, "tools/list", nil, "result", map[string]any{"tools": tools})
}

// Call records a tool call with a text result.
func (t *Trial) Call(server, tool string, arguments any, text string) {
	t.Ask(server, "tools/call", map[string]any{"name": tool, "arguments": arguments},
		"result", map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
}

// Fail records a tool call with an error result.
func (t *Trial) Fail(server, tool string, arguments any, text string) {
	t.Ask(server, "tools/call", map[string]any{"name": tool, "arguments": arguments},
		"result", map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}, "isError": true})
}

// Ask records a request to a server and its response. member is "result" or "error".
func (t *Trial) Ask(server, method string, params any, member string, answer any) {
	t.asked[server]++
	id := t.asked[server]
	request := map[string]any{"jsonrpc": "2.0", "id": id, "method": method}
	if params != nil {
		request["params"] = params
	}
	t.frame(server, evidence.ToServer, request)
	t.frame(server, evidence.ToClient, map[string]any{"jsonrpc": "2.0", "id": id, member: answer})
}

func (t *Trial) frame(server string, dir evidence.Direction, message any) {
	raw, err := evidence.Marshal(message)
	if err != nil {
		t.t.Fatal(err)
	}
	t.Frame(evidence.Frame{Server: server, Conn: server + "/1", Dir: dir, Raw: raw})
}

// Says adds events to the agent's transcript.
func (t *Trial) Says(events ...evidence.TranscriptEvent) {
	t.transcript = append(t.transcript, events...)
}

// Grade adds a grader.
func (t *Trial) Grade(name, kind, config string) {
	t.Info.Graders = append(t.Info.Graders, evidence.GraderSpec{Name: name, Type: kind, Weight: 1, Config: json.RawMessage(config)})
}

// Write writes a file of the trial, such as [evidence.StderrFile].
func (t *Trial) Write(name, content string) {
	file, err := t.Text(name, nil)
	if err == nil {
		_, err = file.Write([]byte(content))
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.t.Fatal(err)
	}
}

func (t *Trial) end(dir evidence.Dir) {
	t.t.Helper()
	for _, server := range slices.Sorted(maps.Keys(t.asked)) {
		t.Info.Servers = append(t.Info.Servers, evidence.ServerRecord{Name: server, Transport: "stdio", Image: "made/" + server})
	}
	if len(t.transcript) > 0 {
		t.writeTranscript()
	}
	zero := 0
	if t.Info.Class == "" && t.Info.ExitCode == nil {
		t.Info.ExitCode = &zero
	}
	t.Info.AgentEnd, t.Info.Ended = t.Now(), t.Now()
	if err := t.Close(); err != nil {
		t.t.Fatal(err)
	}
	if err := dir.WriteTrial(t.Info); err != nil {
		t.t.Fatal(err)
	}
}

func (t *Trial) writeTranscript() {
	out, err := t.Raw(evidence.TranscriptFile)
	if err != nil {
		t.t.Fatal(err)
	}
	offset := 0
	for _, event := range t.transcript {
		n, err := t.WriteTranscript(out, event, offset, nil)
		if err != nil {
			t.t.Fatal(err)
		}
		offset += n
	}
	if err := out.Close(); err != nil {
		t.t.Fatal(err)
	}
}
