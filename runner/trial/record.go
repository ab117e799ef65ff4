package trial

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
)

// redacted is the record as it may be written: free text without secrets, and what was
// taken out of it and of the trial's other files. What names things (tasks, servers,
// graders) stays, or nothing would find them.
func (tr *trialRun) redacted() evidence.Trial {
	secrets, record := tr.o.Secrets, tr.record
	var all redact.Found
	clean := func(text string) string {
		cleaned, found := secrets.Bytes([]byte(text))
		all.Add(found)
		return string(cleaned)
	}
	shortened := func(text string) string {
		cleaned, found := secrets.Cut(text)
		all.Add(found)
		return cleaned
	}
	for _, text := range []*string{&record.Prompt, &record.Signal, &record.FinalOutput} {
		*text = clean(*text)
	}
	record.Message = shortened(record.Message)
	if r := record.Responder; r != nil {
		own := *r
		own.Reason = shortened(r.Reason)
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
	plan, found := secrets.JSON(record.Plan)
	all.Add(found)
	record.Plan = plan
	record.Redacted = tr.rec.Redacted()
	if all.Spans > 0 {
		record.Redacted[evidence.TrialFile] = evidence.Redaction{Spans: all.Spans, Secrets: all.Secrets}
	}
	return record
}

// largeFiles make room where there is none for a trial's record.
var largeFiles = []string{evidence.BeforeFile, evidence.WorkspaceFile, evidence.StdoutFile, evidence.StderrFile, evidence.FramesFile}

// onceEach is an error's lines without those that came before: of one cause several
// writers may complain.
func onceEach(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// writeRecord writes trial.json. Where the disk is full the trial is ours to blame
// for, and its evidence, of which a part is lost already, makes room for that to be
// said.
func (tr *trialRun) writeRecord(dir evidence.Dir) error {
	err := dir.WriteTrial(tr.redacted())
	if !evidence.DiskFull(err) {
		return err
	}
	if tr.record.Class.OfAgent() {
		tr.blame(evidence.ClassInfra, evidence.ReasonRunner, err.Error())
	}
	for _, name := range largeFiles {
		if os.Remove(tr.file(name)) == nil {
			tr.gap(name, errors.New("removed to make room"))
		}
	}
	if len(tr.record.FinalOutput) > 0 {
		tr.record.FinalOutput = ""
		tr.gap(evidence.GapFinalOutput, errors.New("removed to make room"))
	}
	return dir.WriteTrial(tr.redacted())
}
