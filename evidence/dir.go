package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// Names of the files in a trial's directory.
const (
	TrialFile      = "trial.json"
	FramesFile     = "frames.jsonl" // for older runs, which have one file for all servers
	FramesDir      = "frames"       // contains a file for each server
	CallsFile      = "calls.jsonl"
	CatalogsFile   = "catalogs.jsonl"
	EventsFile     = "events.jsonl"
	StdoutFile     = "agent.stdout"
	StderrFile     = "agent.stderr"
	TranscriptFile = "transcript.jsonl"
	BeforeFile     = "before.tar"
	WorkspaceFile  = "workspace.tar"
	NarrationFile  = "narration.json"
	VerdictsFile   = "verdicts.json"
	StepsFile      = "steps.jsonl"
	ModelsFile     = "models.jsonl"
	ObservedFile   = "observed.jsonl"
	ServersDir     = "servers"
	AttemptsDir    = "attempts"    // earlier attempts, each laid out like a trial
	InterruptedDir = "interrupted" // partial evidence of interrupted attempts, laid out likewise
)

// CheckpointsDir has a directory for each checkpoint, named by the number of its turn: the
// trial at that time, laid out like a trial, with the checkpoint's graders.
const CheckpointsDir = "checkpoints"

// Dir reads one trial's directory.
type Dir string

// Checkpoint returns the directory with the evidence up to the end of a turn.
func (d Dir) Checkpoint(turn int) Dir {
	return Dir(filepath.Join(string(d), CheckpointsDir, strconv.Itoa(turn)))
}

// Trial reads trial.json.
func (d Dir) Trial() (Trial, error) { return readJSON[Trial](d, TrialFile) }

// Verdicts reads verdicts.json.
func (d Dir) Verdicts() (Verdicts, error) { return readJSON[Verdicts](d, VerdictsFile) }

// Calls reads calls.jsonl. Large results are left in the file; see [Result].
func (d Dir) Calls() ([]Call, error) { return collect[Call](d, CallsFile) }

// Catalogs reads catalogs.jsonl.
func (d Dir) Catalogs() ([]Catalog, error) { return collect[Catalog](d, CatalogsFile) }

// Narration reads narration.json. It returns [io/fs.ErrNotExist] for a trial without a
// transcript.
func (d Dir) Narration() (Narration, error) { return readJSON[Narration](d, NarrationFile) }

// Events reads events.jsonl.
func (d Dir) Events() ([]Event, error) { return collect[Event](d, EventsFile) }

// Transcript reads transcript.jsonl. It returns an empty transcript if there is none.
func (d Dir) Transcript() ([]TranscriptEvent, error) {
	return collectIfThere[TranscriptEvent](d, TranscriptFile)
}

// MarkedTranscript is like [Dir.Transcript], and sets the Marks of events according to spans, which are the
// spans of replaced secrets in the file.
func (d Dir) MarkedTranscript(spans []secret.Span) ([]TranscriptEvent, error) {
	if len(spans) == 0 {
		return d.Transcript()
	}
	lines, err := collectIfThere[markedEvent](d, TranscriptFile)
	events, offset := make([]TranscriptEvent, len(lines)), 0
	for i, line := range lines {
		var own []secret.Span
		for _, p := range spans {
			if p.At < offset+len(line.text) && offset < p.At+p.Bytes {
				own = append(own, secret.Span{At: p.At - offset, Bytes: p.Bytes, Secrets: p.Secrets})
			}
		}
		events[i], offset = line.event(own), offset+len(line.text)
	}
	return events, err
}

// markedEvent is an event of a transcript with the bytes of its line.
type markedEvent struct {
	TranscriptEvent
	text []byte
}

func (e *markedEvent) UnmarshalJSON(line []byte) error {
	e.text = line
	return jsontext.Unmarshal(line, &e.TranscriptEvent)
}

// event returns the event with Marks set according to the spans in its line.
func (e markedEvent) event(spans []secret.Span) TranscriptEvent {
	line := bytes.TrimRight(e.text, "\r\n")
	e.Marks = secret.Within(line, spans, "arguments")
	if names := secret.Within(line, spans)["tool_name"]; names != nil {
		if e.Marks == nil {
			e.Marks = map[string][]string{}
		}
		e.Marks[""] = append(e.Marks[""], names...)
	}
	return e.TranscriptEvent
}

// ModelCalls reads models.jsonl line by line. The file does not exist if no model was
// called.
func (d Dir) ModelCalls() iter.Seq2[ModelCall, error] {
	return func(yield func(ModelCall, error) bool) {
		for call, err := range readLines[ModelCall](d, ModelsFile, math.MaxInt64) {
			if errors.Is(err, os.ErrNotExist) || !yield(call, err) {
				return
			}
		}
	}
}

// Observed reads observed.jsonl. The file does not exist if nothing was observed.
func (d Dir) Observed() ([]Observed, error) { return collectIfThere[Observed](d, ObservedFile) }

// Steps reads steps.jsonl. The file does not exist if the trial has no steps.
func (d Dir) Steps() ([]Step, error) { return collectIfThere[Step](d, StepsFile) }

// Workspace opens workspace.tar, the workspace after the agent stopped.
func (d Dir) Workspace() (io.ReadCloser, error) {
	return Open(string(d), WorkspaceFile)
}

// Earlier returns the previous attempts at a trial, in order, with the outcome that grading
// gave them.
func (d Dir) Earlier() ([]Trial, error) {
	at := filepath.Join(string(d), AttemptsDir)
	entries, err := os.ReadDir(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []Trial
	for _, entry := range entries {
		t, err := readJSON[Trial](d, filepath.Join(AttemptsDir, entry.Name(), TrialFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("attempt: %w", err)
		}
		at := Dir(filepath.Join(string(d), AttemptsDir, entry.Name()))
		verdicts, err := at.Verdicts()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("attempt: %w", err)
		}
		t.Class, t.Reason, t.Message = t.Outcome(verdicts)
		found = append(found, t)
	}
	slices.SortFunc(found, func(a, b Trial) int { return a.Attempt - b.Attempt })
	return found, nil
}

// Gateway reports whether the trial's models were called through the runner's gateway, which records every
// request: the plan says so, or there is a record. Requests that bypass the gateway are not recorded.
func (d Dir) Gateway(t Trial) bool {
	var plan struct {
		Models json.RawMessage `json:"models"`
	}
	if json.Unmarshal(t.Plan, &plan) == nil && len(plan.Models) > 0 && string(plan.Models) != "null" {
		return true
	}
	_, err := os.Lstat(filepath.Join(string(d), ModelsFile))
	return err == nil
}

// maxStderrEnd is the number of bytes that StderrEnds returns of each end of stderr.
const maxStderrEnd = 2 << 10

// StderrEnds returns the first and the last 2 KiB of the agent's stderr, or "".
func (d Dir) StderrEnds() string { return d.ends(StderrFile) }

func (d Dir) ends(name string) string {
	file, err := Open(string(d), name)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	head := min(info.Size(), maxStderrEnd)
	tail := min(info.Size()-head, maxStderrEnd)
	said := make([]byte, head+tail)
	if _, err := file.ReadAt(said[:head], 0); err != nil {
		return ""
	}
	if _, err := file.ReadAt(said[head:], info.Size()-tail); err != nil {
		return ""
	}
	if head+tail < info.Size() {
		said = slices.Insert(said, int(head), '\n')
	}
	return strings.ToValidUTF8(string(said), "")
}

// LastStderrLine returns the last line of the agent's stderr, or "".
func (d Dir) LastStderrLine() string { return lastLine(d.StderrEnds()) }

func lastLine(said string) string {
	said = strings.TrimSpace(said)
	return strings.TrimSpace(said[strings.LastIndexAny(said, "\r\n")+1:])
}

// ServerGist returns the [text.Gist] of a server's stderr, or "" if message already contains the last line of
// stderr.
func (d Dir) ServerGist(server, message string) string {
	said := d.ends(filepath.Join(ServersDir, server+".stderr"))
	if strings.Contains(message, lastLine(said)) {
		return ""
	}
	return text.Gist(said)
}

// Explained returns a trial's verdicts. If a program ended by itself, the message includes what it printed to
// stderr: the agent if it ended with an error, or the server that failed the trial.
func (d Dir) Explained(t Trial, v Verdicts) Verdicts {
	said := ""
	switch {
	case v.Reason == ReasonExitCode || v.Reason == ReasonSignal:
		said = text.Gist(d.StderrEnds())
	case v.Class == ClassServerError:
		said = d.ServerGist(t.FailedServer, v.Message)
	}
	if said != "" {
		first, rest, _ := strings.Cut(v.Message, "\n")
		v.Message = strings.TrimSuffix(first+": "+said+"\n"+rest, "\n")
	}
	return v
}

// ServerWrote returns the number of bytes and lines recorded of a server's stderr.
func (d Dir) ServerWrote(server string) (size, lines int64, err error) {
	file, err := Open(string(d), filepath.Join(ServersDir, server+".stderr"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = file.Close() }()
	for p := make([]byte, 64<<10); ; {
		n, err := file.Read(p)
		size += int64(n)
		lines += int64(bytes.Count(p[:n], []byte{'\n'}))
		if errors.Is(err, io.EOF) {
			return size, lines, nil
		}
		if err != nil {
			return size, lines, err
		}
	}
}

// Echo counts how often a server sent or wrote a secret.
type Echo struct {
	Secret string `json:"secret"`           // as SERVER/NAME; may belong to another server
	Frames int    `json:"frames,omitempty"` // occurrences in messages to the client
	Stderr int    `json:"stderr,omitempty"` // occurrences in stderr
}

// Echoes returns the secrets that each server sent or wrote, by server and sorted by
// secret.
func (d Dir) Echoes(t Trial) (map[string][]Echo, error) {
	said := map[string]map[string]Echo{}
	add := func(server, secret string, frames, stderr int) {
		if said[server] == nil {
			said[server] = map[string]Echo{}
		}
		e := said[server][secret]
		said[server][secret] = Echo{secret, e.Frames + frames, e.Stderr + stderr}
	}
	for f, err := range d.Frames() {
		if err != nil {
			return nil, err
		}
		for secret, times := range f.Secrets {
			if f.Dir == ToClient && f.Synthetic == "" {
				add(f.Server, secret, times, 0)
			}
		}
	}
	for _, s := range t.Servers {
		for secret, times := range t.Redacted[ServersDir+"/"+s.Name+".stderr"].Secrets {
			add(s.Name, secret, 0, times)
		}
	}
	all := make(map[string][]Echo, len(said))
	for server, echoes := range said {
		all[server] = slices.SortedFunc(maps.Values(echoes), func(a, b Echo) int { return strings.Compare(a.Secret, b.Secret) })
	}
	return all, nil
}
