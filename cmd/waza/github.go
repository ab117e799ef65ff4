package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/report/github"
	"github.com/waza-isolate/waza/runner"
)

// workflow is the step of a GitHub Actions workflow that a command runs in. GitHub's runner
// ignores workflow commands in the command's output until it ends.
type workflow struct {
	summary   string // file of the step's summary, or ""
	workspace string // root of the repository
	resume    string // the line that enables workflow commands again

	annotations []github.Annotation
}

// beginWorkflow returns the workflow step that the command runs in, or nil outside of GitHub
// Actions.
func beginWorkflow(lookup func(string) (string, bool), stderr io.Writer) *workflow {
	if on, _ := lookup("GITHUB_ACTIONS"); on != "true" {
		return nil
	}
	f := &workflow{}
	f.summary, _ = lookup("GITHUB_STEP_SUMMARY")
	f.workspace, _ = lookup("GITHUB_WORKSPACE")
	var begin string
	begin, f.resume = github.StopCommands(rand.Text())
	fmt.Fprint(stderr, begin)
	return f
}

// end prints the annotations after all other output.
func (f *workflow) end(stderr io.Writer) {
	if f != nil {
		fmt.Fprint(stderr, f.resume)
		_ = github.WriteAnnotations(stderr, f.annotations)
	}
}

// add writes a run to the step's summary, and collects the annotations of its tasks.
func (f *workflow) add(out runner.Outcome) error {
	if f == nil {
		return nil
	}
	run := out.View()
	f.annotations = append(f.annotations, github.Annotations(run, f.places(out.Record))...)
	if f.summary == "" {
		return nil
	}
	file, err := os.OpenFile(f.summary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("GITHUB_STEP_SUMMARY: %w", err)
	}
	return errors.Join(github.Comment(file, run), file.Close())
}

// remark is a line about a task, or about the whole run if task is empty.
type remark struct{ task, line string }

// remark adds an annotation for each remark on tasks of the runs at paths.
func (f *workflow) remark(level, command string, remarks []remark, paths ...string) {
	if f == nil {
		return
	}
	places := map[string]github.Place{}
	for _, dir := range paths {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			dir = filepath.Dir(dir) // dir is the path of a results.json
		}
		if record, err := runner.ReadRecord(dir); err == nil {
			maps.Copy(places, f.places(record))
		}
	}
	for _, r := range remarks {
		f.annotations = append(f.annotations, github.Annotation{Level: level, Place: places[r.task], Title: "waza " + command, Message: r.line})
	}
}

// places returns where the tasks of a run are defined.
func (f *workflow) places(r runner.Record) map[string]github.Place {
	places := map[string]github.Place{}
	for _, t := range r.Tasks {
		if t.File != "" { // older records have no file
			places[t.ID] = github.Place{File: f.inRepository(filepath.Join(filepath.Dir(r.Eval.Path), filepath.FromSlash(t.File))), Line: t.Line}
		}
	}
	return places
}

// inRepository returns path relative to the root of the repository, or "" if it is outside.
func (f *workflow) inRepository(path string) string {
	inside, err := relative(f.workspace, path)
	if f.workspace == "" || err != nil || !filepath.IsLocal(inside) {
		return ""
	}
	return filepath.ToSlash(inside)
}
