package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// exports are the files that a run writes outside its run directory because of flags of upstream waza.
type exports struct {
	reports       []copied // from --reporter
	outputDir     string
	transcriptDir string
	sessionLog    bool
	sessionDir    string
	tracing       tracing
}

// copied is a file of the run directory and the path that it is copied to.
type copied struct{ file, to string }

func exportFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "reporter", Usage: "Also write a report, as `KIND:FILE` (json:FILE or junit:FILE; repeatable)"},
		&cli.StringFlag{Name: "output-dir", Action: mustBeDir("output-dir"), Aliases: []string{"d"}, Usage: "Also write results.json to `DIR`/SKILL/MODEL.json"},
		&cli.StringFlag{Name: "transcript-dir", Action: mustBeDir("transcript-dir"), Usage: "Also write each trial's transcript to a JSON file in `DIR`"},
		&cli.BoolFlag{Name: "session-log", Usage: "Also write a log of events, one JSON object a line, to --session-dir", Hidden: true},
		&cli.StringFlag{Name: "session-dir", Action: mustBeDir("session-dir"), Value: ".", Usage: "Write the session log to `DIR`", Hidden: true},
	}
}

func readExports(c *cli.Command, output string) (exports, error) {
	e := exports{
		outputDir: c.String("output-dir"), transcriptDir: c.String("transcript-dir"),
		sessionLog: c.Bool("session-log"), sessionDir: c.String("session-dir"),
	}
	if e.outputDir != "" && output != "" {
		return e, usage("--output names a file and --output-dir a directory for the same results: give one of them")
	}
	for _, given := range c.StringSlice("reporter") {
		kind, file, _ := strings.Cut(given, ":")
		switch {
		case kind == "json" && file == "": // results.json is always written
		case kind == "json":
			e.reports = append(e.reports, copied{runner.ResultsFile, file})
		case kind == "junit" && file != "":
			e.reports = append(e.reports, copied{runner.JUnitFile, file})
		default:
			return e, usage("--reporter must be json, json:FILE or junit:FILE, not %q", given)
		}
	}
	return e, nil
}

// export copies the files that flags ask for from a run's directory. If the command makes several runs, each
// file name contains the run's label.
func (o runOutput) export(j *runner.Job, out runner.Outcome) error {
	e, dir, all := o.exports, out.Dir, out.Results
	for _, r := range e.reports {
		if err := copyOut(dir, r.file, files.NamedFile(withLabel(r.to, o.label))); err != nil {
			return usage("--reporter: %w", err)
		}
	}
	var errs []error
	if e.outputDir != "" {
		name := slug(cmp.Or(all.Config.ModelID, all.Config.EngineType)) + ".json"
		errs = append(errs, copyOut(dir, runner.ResultsFile, filepath.Join(files.Named(e.outputDir), slug(cmp.Or(all.Skill, all.EvalName)), withLabel(name, o.label))))
	}
	if e.transcriptDir != "" {
		prompts := map[string]string{}
		for _, t := range j.Tasks {
			prompts[t.ID] = t.Prompt
		}
		errs = append(errs, writeTranscripts(files.Named(e.transcriptDir), dir, all, prompts))
	}
	if e.sessionLog {
		errs = append(errs, writeSession(files.Named(e.sessionDir), j.Eval.Path, all))
	}
	errs = append(errs, o.trace(out))
	if err := errors.Join(errs...); err != nil {
		return usage("%w", err)
	}
	return nil
}

var unsafeInFile = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// mustBeDir returns an action that rejects a flag's value before the run if it exists and is
// not a directory.
func mustBeDir(flag string) func(context.Context, *cli.Command, string) error {
	return func(_ context.Context, _ *cli.Command, dir string) error {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !info.IsDir() {
			return usage("--%s: %s is not a directory; name one, which may be new", flag, dir)
		}
		return nil
	}
}

// slug turns text into a part of a file name.
func slug(text string) string {
	name := strings.Trim(unsafeInFile.ReplaceAllString(text, "-"), "-.")
	if name == "" {
		return "eval"
	}
	return name[:min(len(name), 100)]
}

// withLabel inserts a label before the extension of a file name.
func withLabel(file, by string) string {
	if by == "" {
		return file
	}
	ext := filepath.Ext(file)
	return strings.TrimSuffix(file, ext) + "_" + by + ext
}

func copyOut(dir, name, to string) error {
	if err := files.MakeDir(filepath.Dir(to)); err != nil {
		return err
	}
	return evidence.WriteFileBy(to, func(w io.Writer) error { return copyTo(w, dir, name) })
}

// transcriptFile is upstream's file format for one run of a task.
type transcriptFile struct {
	TaskID      string                        `json:"task_id"`
	TaskName    string                        `json:"task_name"`
	Status      results.Status                `json:"status"`
	StartedAt   time.Time                     `json:"started_at"`
	CompletedAt time.Time                     `json:"completed_at"`
	DurationMS  int64                         `json:"duration_ms"`
	Prompt      string                        `json:"prompt"`
	FinalOutput string                        `json:"final_output"`
	Transcript  []results.TranscriptEvent     `json:"transcript"`
	Validations map[string]results.Validation `json:"validations"`
	Session     results.SessionDigest         `json:"session"`
	ErrorMsg    string                        `json:"error_msg,omitempty"`
}

// writeTranscripts writes a file to dir for each trial of the run in directory of. Results do not contain
// start times of trials, so all trials start with the run.
func writeTranscripts(dir, of string, all results.Results, prompts map[string]string) error {
	for _, task := range all.Tasks {
		for _, run := range task.Runs {
			run, err := runner.Complete(of, task.TestID, run)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("%s-%d-%s.json", slug(task.TestID), run.RunNumber, all.Timestamp.Format("20060102-150405"))
			err = writeJSON(filepath.Join(dir, name), transcriptFile{
				TaskID: task.TestID, TaskName: task.DisplayName, Status: run.Status, StartedAt: all.Timestamp,
				CompletedAt: all.Timestamp.Add(time.Duration(run.DurationMS) * time.Millisecond), DurationMS: run.DurationMS,
				Prompt: prompts[task.TestID], FinalOutput: run.FinalOutput, Transcript: run.Transcript,
				Validations: run.Validations, Session: run.SessionDigest, ErrorMsg: run.ErrorMsg,
			})
			if err != nil {
				return fmt.Errorf("--transcript-dir: %w", err)
			}
		}
	}
	return nil
}

func writeJSON(path string, value any) error {
	if err := files.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	return evidence.WriteFileBy(path, func(w io.Writer) error {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(value)
	})
}

// writeSession writes upstream's session log of a completed run.
func writeSession(dir, spec string, all results.Results) error {
	if err := files.MakeDir(dir); err != nil {
		return fmt.Errorf("--session-dir: %w", err)
	}
	path := filepath.Join(dir, all.Timestamp.Format("20060102-150405")+"-"+slug(all.EvalID)+"-session.jsonl")
	return evidence.WriteFileBy(path, func(w io.Writer) error {
		out := json.NewEncoder(w)
		var errs []error
		event := func(kind string, data map[string]any) {
			errs = append(errs, out.Encode(map[string]any{"timestamp": all.Timestamp, "type": kind, "data": data}))
		}
		event("session_start", map[string]any{"spec_path": spec, "model": all.Config.ModelID, "engine": all.Config.EngineType, "task_count": len(all.Tasks)})
		for i, task := range all.Tasks {
			event("task_start", map[string]any{"task_name": task.DisplayName, "task_num": i + 1, "total_tasks": len(all.Tasks)})
			took, score := int64(0), 0.0
			for _, run := range task.Runs {
				took += run.DurationMS
				for _, name := range slices.Sorted(maps.Keys(run.Validations)) {
					v := run.Validations[name]
					event("grader_result", map[string]any{"task_name": task.DisplayName, "run_number": run.RunNumber, "grader_name": name, "grader_type": v.Type, "passed": v.Passed, "score": v.Score, "feedback": v.Feedback})
				}
				if run.ErrorMsg != "" {
					event("error", map[string]any{"task_name": task.DisplayName, "message": run.ErrorMsg})
				}
			}
			if task.Stats != nil {
				score = task.Stats.AvgScore
			}
			event("task_complete", map[string]any{"task_name": task.DisplayName, "status": task.Status, "score": score, "duration_ms": took})
		}
		s := all.Summary
		event("session_complete", map[string]any{"total_tests": s.TotalTests, "passed": s.Succeeded, "failed": s.Failed, "errors": s.Errors, "duration_ms": s.DurationMS})
		return errors.Join(errs...)
	})
}
