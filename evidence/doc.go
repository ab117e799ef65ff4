// Package evidence defines the directory of a trial: its files, their records, and how to
// read and write them. [Recorder] writes them during the trial and [Dir] reads them. The
// package stores what happened and evaluates nothing. Reading requires no engine, network
// or process of the run.
//
// The records, by file of a trial's directory:
//
//	trial.json        [Trial]: plan, times, how the agent ended
//	frames/NAME.jsonl [Frame]: every MCP message of server NAME, with its bytes
//	calls.jsonl       [Call]: the tool calls in the frames, derived by grading
//	catalogs.jsonl    [Catalog]: what each server listed, derived by grading
//	models.jsonl      [ModelCall]: every request to a model, with its response
//	events.jsonl      [Event]: everything else that happened
//	observed.jsonl    [Observed]: what programs of servers and services did
//	transcript.jsonl  [TranscriptEvent]: what the agent reports
//	narration.json    [Narration]: the transcript compared with the calls, derived by grading
//	steps.jsonl       [Step]: work done for graders, with the results
//	verdicts.json     [Verdicts]: the outcome and each grader's verdict
//
// A run has two more kinds of records: [Progress], the lines of progress.jsonl, and
// [Certificate], which is stored in run.json.
package evidence
