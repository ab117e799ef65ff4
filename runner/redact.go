package runner

import (
	"slices"

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
