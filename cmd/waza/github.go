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
	"github.com/waza-isolate/waza/report/markdown"
	"github.com/waza-isolate/waza/runner"
)

// workflow is the step of a GitHub Actions workflow that a command runs in. While the command
// is at work, GitHub's runner reads no workflow commands in what it prints.
type workflow struct {
	summary   string // file of the step's summary; empty for none
	workspace string // root of the repository
	resume    string // the line from which on workflow commands are read again

	annotations []github.Annotation
}

// beginWorkflow returns the step that a command runs in; nil outside of GitHub Actions.
func beginWorkflow(lookup func(string) (string, bool), stderr io.Writer) *workflow {
	if on, _ := lookup("GITHUB_ACTIONS"); on != "true" {
		return nil
	}
	f := &workflow{}
	f.summary, _ = lookup("GITHUB_STEP_SUMMARY")
	f.workspace, _ = lookup("GITHUB_WORKSPACE")
	var begin string
	begin, f.resume = github.Stop(rand.Text())
	fmt.Fprint(stderr, begin)
	return f
}

// end prints the annotations, when everything else is printed.
func (f *workflow) end(stderr io.Writer) {
	if f != nil {
		fmt.Fprint(stderr, f.resume)
		_ = github.Write(stderr, f.annotations)
	}
}

// add adds a run to the summary of the step, and keeps the annotations of its tasks.
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
	return errors.Join(markdown.Comment(file, run), file.Close())
}

// remark is a line about a task; about the whole run without one.
type remark struct{ task, line string }

// remark keeps remarks on tasks of the runs at paths as annotations of a command.
func (f *workflow) remark(level, command string, remarks []remark, paths ...string) {
	if f == nil {
		return
	}
	places := map[string]github.Place{}
	for _, dir := range paths {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			dir = filepath.Dir(dir) // of a results.json
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
		if t.File != "" { // as runs of before have none
			places[t.ID] = github.Place{File: f.inRepository(filepath.Join(filepath.Dir(r.Eval.Path), filepath.FromSlash(t.File))), Line: t.Line}
		}
	}
	return places
}

// inRepository returns a path from the root of the repository; empty of one that is not in it.
func (f *workflow) inRepository(path string) string {
	absolute, err := filepath.Abs(path)
	if err != nil || f.workspace == "" {
		return ""
	}
	inside, err := filepath.Rel(f.workspace, absolute)
	if err != nil || !filepath.IsLocal(inside) {
		return ""
	}
	return filepath.ToSlash(inside)
}
