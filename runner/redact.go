package runner

import "github.com/waza-isolate/waza/runner/evidence"

// redacted is the record as it may be written: free text without secrets. What
// names things (tasks, servers, graders) stays, or nothing would find them.
func (tr *trialRun) redacted() evidence.Trial {
	secrets, record := tr.run.o.Secrets, tr.record
	for _, text := range []*string{&record.Prompt, &record.Message, &record.Signal, &record.FinalOutput} {
		*text = secrets.String(*text)
	}
	for i := range record.Gaps {
		record.Gaps[i] = secrets.String(record.Gaps[i])
	}
	for i := range record.Servers {
		record.Servers[i].Image = secrets.String(record.Servers[i].Image)
	}
	record.Plan, _ = secrets.JSON(record.Plan)
	return record
}
