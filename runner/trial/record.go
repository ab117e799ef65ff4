package trial

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// recording is the evidence of a running trial: its plan, its record so far and its recorder.
type recording struct {
	o        Options
	plan     *plan.Trial
	rec      *evidence.Recorder
	record   evidence.Trial
	canaries *canaryScanner // nil if the trial has no canaries
	calls    *callWatch
	acted    atomic.Bool     // the agent wrote something, asked a model or called a tool
	sender   evidence.Sender // whose messages are recorded; empty for the agent
	replaced []secret.Span   // where secrets were replaced already in EarlierOutput followed by FinalOutput
	notes    []note          // that decide the outcome
	// captured returns the calls on record, once the agent's sessions have ended. They are read
	// from its files, because messages may be larger than memory and graders see them
	// redacted.
	captured func() (capture.Result, error)
}

func newRecording(t *plan.Trial, rec *evidence.Recorder, o Options) (*recording, error) {
	canaries, err := scannerFor(t, rec)
	if err != nil {
		return nil, err
	}
	r := &recording{o: o, plan: t, rec: rec, record: newRecord(t, rec.Now()), canaries: canaries}
	r.calls = &callWatch{secrets: o.Secrets, report: o.Called}
	r.captured = sync.OnceValues(func() (capture.Result, error) { return capture.Calls(evidence.Dir(rec.Dir()).Frames()) })
	r.record.Watched = canaries.scanned(t.Isolated())
	return r, nil
}

// add adds notes, and sets the outcome that they lead to.
func (r *recording) add(notes ...note) {
	r.notes = append(r.notes, notes...)
	c := conclude(r.notes)
	r.record.Class, r.record.Reason, r.record.Message, r.record.Gaps = c.class, c.reason, c.message, c.gaps
	r.record.FailedServer = c.server
}

// blame notes who is to blame for a failure.
func (r *recording) blame(class evidence.Class, reason evidence.Reason, message string) {
	r.add(note{class: class, reason: reason, message: message})
}

// gap notes that evidence is missing. Graders that need it return an error.
func (r *recording) gap(what string, err error) { r.add(gapNote(what, err.Error())) }

// ourFailure returns the note of a failure that the agent did not cause: server_error if a server exited by
// itself before it answered, else infra.
func ourFailure(err error) note {
	n := note{class: evidence.ClassInfra, reason: reasonOf(err), message: withoutRepeats(err), ours: true}
	if probe := (*client.Error)(nil); n.reason == evidence.ReasonServer && errors.Is(err, client.ErrExited) && errors.As(err, &probe) {
		n.class, n.server = evidence.ClassServerError, probe.Server
	}
	return n
}

func (r *recording) recordExit(container string, e sandbox.Exit) {
	if e.Cause != "" {
		r.rec.Event(evidence.Event{Kind: "container_exit", Where: container, Message: e.Message, Data: map[string]any{"by": e.Cause}})
	}
}

// asksOf returns what a trial's graders ask for, limited to the given kinds.
func asksOf(t *plan.Trial, kinds ...string) []grading.Ask {
	var wanted []grading.Ask
	for _, ask := range grading.Asks(t.AllGraders()) {
		if slices.Contains(kinds, ask.Kind) {
			wanted = append(wanted, ask)
		}
	}
	return wanted
}

// recordStep records the answer to an ask, or why there is none.
func recordStep(rec *evidence.Recorder, ask grading.Ask, answer any, unanswered error) error {
	s, err := newStep(ask, answer, unanswered)
	if err != nil {
		return err
	}
	return rec.Step(s)
}

// newStep returns the record of an ask with its answer, or with why there is none.
func newStep(ask grading.Ask, answer any, unanswered error) (s evidence.Step, err error) {
	s = evidence.Step{Grader: ask.Grader, Kind: ask.Kind}
	if s.Ask, err = ask.Raw(); err != nil {
		return s, err
	}
	if unanswered != nil {
		s.Error = unanswered.Error()
		return s, nil
	}
	s.Answer, err = json.Marshal(answer)
	if p, ok := answer.(*evidence.ProgramAnswer); ok {
		s.Spans = secret.Kept(string(s.Answer), p.Replaced)
	}
	return s, err
}

// keepRun keeps how the agent ran.
func (r *recording) keepRun(ran agentRun) {
	r.add(ran.notes...)
	to := &r.record
	to.AgentStart, to.AgentEnd, to.ExitCode, to.Signal = ran.started, ran.ended, ran.exitCode, ran.signal
	to.Commands, to.Miscalled = ran.commands, ran.miscalled
	to.Checkpoints, to.Responder, to.BetweenTurns = ran.turns.checkpoints, ran.turns.responder, ran.turns.between
	to.FinalOutput, r.replaced = ran.stdout.text, ran.stdout.spans // if no more can be collected
}

// keep keeps what the agent left.
func (r *recording) keep(l left) {
	r.add(l.notes...)
	r.record.EarlierOutput, r.record.FinalOutput, r.replaced = l.final.text[:l.last], l.final.text[l.last:], l.final.spans
}

// observer returns the recorder for what happens in the trial.
func (r *recording) observer() observer {
	return observer{r.rec, r.canaries, r.calls, &r.acted, r.sender}
}

// redacted returns the record with secrets removed from free text, and with the counts of what
// was removed from the trial's files. Names of tasks, servers and graders are kept, since they
// are used for lookups. Texts are made valid UTF-8, as in trial.json, so that grading now and
// later sees the same.
func (r *recording) redacted() evidence.Trial {
	secrets, record := r.o.Secrets, r.record
	var all secret.Found
	clean := func(text string) string {
		cleaned, found := secrets.Bytes([]byte(text))
		all.Add(found)
		return asUTF8(string(cleaned))
	}
	shortened := func(text string) string {
		cleaned, found := secrets.Cut([]byte(text), false)
		all.Add(found)
		return asUTF8(string(cleaned))
	}
	for _, text := range []*string{&record.Prompt, &record.Signal} {
		*text = clean(*text)
	}
	marks, found := r.cleanOutputs(&record)
	all.Add(found)
	record.Message = shortened(record.Message)
	if responder := record.Responder; responder != nil {
		own := *responder
		own.Reason = shortened(responder.Reason)
		record.Responder = &own
	}
	record.Commands = slices.Clone(record.Commands)
	for i, c := range record.Commands {
		record.Commands[i].Args = slices.Clone(c.Args)
		for n, arg := range c.Args {
			record.Commands[i].Args[n] = clean(arg)
		}
	}
	record.Gaps = slices.Clone(record.Gaps)
	for i, gap := range record.Gaps {
		record.Gaps[i] = shortened(gap)
	}
	record.Servers = slices.Clone(record.Servers)
	for i, server := range record.Servers {
		record.Servers[i].Image = clean(server.Image)
	}
	record.Plan, found = secrets.JSON(record.Plan)
	all.Add(found)
	record.Redacted = r.rec.Redacted()
	if all.Spans+len(marks) > 0 {
		record.Redacted[evidence.TrialFile] = evidence.Redaction{Spans: all.Spans, Secrets: all.Secrets, Marks: marks}
	}
	return record
}

// cleanOutputs removes secrets from the agent's output. One may begin in the turns before the last and end in
// the last.
func (r *recording) cleanOutputs(record *evidence.Trial) (marks secret.Marks, found secret.Found) {
	last := len(record.EarlierOutput)
	clean, found := r.o.Secrets.Bytes([]byte(record.EarlierOutput + record.FinalOutput))
	spans := append(found.Where, r.replaced...)
	slices.SortFunc(spans, func(a, b secret.Span) int { return a.At - b.At })
	for _, text := range []struct {
		name     string
		of       *string
		from, to int
	}{
		{evidence.TextEarlierOutput, &record.EarlierOutput, 0, last},
		{evidence.TextFinalOutput, &record.FinalOutput, last, len(clean)},
	} {
		at, written := text.from, 0 // offsets in clean, and in the text as UTF-8
		for _, p := range spans {
			from, to := max(p.At, at), min(p.At+p.Bytes, text.to)
			if from >= to {
				continue
			}
			written += len(asUTF8(string(clean[at:from])))
			marks.Add(text.name, false, secret.Span{At: written, Bytes: to - from, Secrets: p.Secrets})
			written, at = written+to-from, to
		}
		*text.of = asUTF8(string(clean[text.from:text.to]))
	}
	return marks, found
}

// asUTF8 replaces invalid UTF-8 by U+FFFD, as encoding/json does.
func asUTF8(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}

// largeFiles are removed if the disk has no space for a trial's record.
var largeFiles = []string{evidence.BeforeFile, evidence.WorkspaceFile, evidence.StdoutFile, evidence.StderrFile, evidence.FramesDir}

// withoutRepeats returns err's text without repeated lines; several writers may report the same
// cause.
func withoutRepeats(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// writeRecord writes trial.json and returns its content. If the disk is full, the trial's large files,
// which are incomplete, are removed to make space for it and for the trials that follow.
func (r *recording) writeRecord(dir evidence.Dir) (written evidence.Trial, err error) {
	lost := r.rec.Lost()
	for _, kind := range slices.Sorted(maps.Keys(lost)) {
		r.gap(kind, lost[kind])
	}
	written = r.redacted()
	err = dir.WriteTrial(written)
	if evidence.DiskFull(err) {
		return OutOfSpace(dir, written, err)
	}
	if err == nil && evidence.DiskFull(r.rec.Err()) {
		return OutOfSpace(dir, written, nil)
	}
	return written, err
}

// OutOfSpace removes the large files of a trial that fills the disk and writes its record again. If why
// is not nil, the trial ends as infra, unless it had failed before.
func OutOfSpace(dir evidence.Dir, t evidence.Trial, why error) (evidence.Trial, error) {
	if why != nil && t.Class == "" {
		t.Class, t.Reason, t.Message = evidence.ClassInfra, evidence.ReasonRunner, why.Error()
	}
	for _, name := range largeFiles {
		if _, err := os.Lstat(filepath.Join(string(dir), name)); err != nil {
			continue
		}
		if err := files.RemoveAll(filepath.Join(string(dir), name)); err == nil {
			t.Gaps = append(t.Gaps, name+": removed to make room")
		}
	}
	if len(t.EarlierOutput)+len(t.FinalOutput) > 0 {
		t.EarlierOutput, t.FinalOutput = "", ""
		t.Gaps = append(t.Gaps, evidence.GapFinalOutput+": removed to make room")
	}
	return t, dir.WriteTrial(t)
}
