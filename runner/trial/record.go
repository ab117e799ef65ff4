package trial

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/runner/plan"
)

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

// redacted removes secrets from the free text of a trial's record. It adds the counts of secrets
// removed from the trial's files. It keeps names of tasks, servers and graders, since they are used
// for lookups. Texts are made valid UTF-8, as in trial.json, so that grading now and later sees the
// same.
func (all everything) redacted(record evidence.Trial, rec *evidence.Recorder) evidence.Trial {
	secrets := all.o.Secrets
	var sum secret.Found
	clean := func(text string) string {
		cleaned, found := secrets.Bytes([]byte(text))
		sum.Add(found)
		return asUTF8(string(cleaned))
	}
	shortened := func(text string) string {
		cleaned, found := secrets.Cut([]byte(text), false)
		sum.Add(found)
		return asUTF8(string(cleaned))
	}
	for _, text := range []*string{&record.Prompt, &record.Signal} {
		*text = clean(*text)
	}
	output, _ := all.output()
	marks, found := cleanOutputs(&record, secrets, output.spans)
	sum.Add(found)
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
	sum.Add(found)
	record.Redacted = rec.Redacted()
	if sum.Spans+len(marks) > 0 {
		record.Redacted[evidence.TrialFile] = evidence.Redaction{Spans: sum.Spans, Secrets: sum.Secrets, Marks: marks}
	}
	return record
}

// cleanOutputs removes secrets from the agent's output. A secret may begin in an earlier turn and
// end in the last. replaced is where secrets were already replaced, which counts too.
func cleanOutputs(record *evidence.Trial, secrets *secret.Set, replaced []secret.Span) (marks secret.Marks, found secret.Found) {
	last := len(record.EarlierOutput)
	clean, found := secrets.Bytes([]byte(record.EarlierOutput + record.FinalOutput))
	for _, p := range replaced {
		found.AddSpan(p)
	}
	spans := slices.Concat(found.Where, replaced)
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

// withoutRepeats returns err's text without repeated lines, since several writers may report the
// same cause.
func withoutRepeats(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// writeRecord writes trial.json and returns its content. If the disk is full, it removes the
// trial's large files, which are incomplete, to make space for trial.json and for later trials.
func writeRecord(dir evidence.Dir, record evidence.Trial, rec *evidence.Recorder) (evidence.Trial, error) {
	err := dir.WriteTrial(record)
	if evidence.DiskFull(err) {
		return OutOfSpace(dir, record, err)
	}
	if err == nil && evidence.DiskFull(rec.Err()) {
		return OutOfSpace(dir, record, nil)
	}
	return record, err
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
