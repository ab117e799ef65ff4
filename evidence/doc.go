// Package evidence defines the directory of a trial: its files, the records in them, and how
// they are written and read. [Recorder] writes them as things happen, [Dir] reads them. The
// package holds what happened and judges nothing; readers need no engine, no network and no
// process of the run.
//
// The records, by file of a trial's directory:
//
//	trial.json        [Trial]: plan, times, how the agent ended
//	frames.jsonl      [Frame]: every MCP message, with its bytes
//	calls.jsonl       [Call]: the tool calls that the frames add up to, derived by grading
//	catalogs.jsonl    [Catalog]: what each server listed, derived by grading
//	models.jsonl      [ModelCall]: every request to a model, with its answer
//	events.jsonl      [Event]: everything else that happened
//	observed.jsonl    [Observed]: what programs of servers and services did
//	transcript.jsonl  [TranscriptEvent]: what the agent reports
//	narration.json    [Narration]: the transcript compared with the calls, derived by grading
//	steps.jsonl       [Step]: what was done for graders, and the results
//	verdicts.json     [Verdicts]: the outcome and each grader's verdict
//
// Two further records belong to a run: [Progress], the lines of progress.jsonl, and
// [Certificate], which run.json holds.
package evidence
