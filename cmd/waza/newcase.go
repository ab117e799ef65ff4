package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/cmd/waza/scaffold"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner"
)

// defaultCassette is the directory of the cassette for an eval that names none.
const defaultCassette = "cassette"

// newCase adds a task that repeats a trial, with the answers of its servers and models.
func newCase(s *state, c *cli.Command) error {
	if err := takes(c, 1, 2, "the trial of --from, as TASK/N, and before it a name for the new task"); err != nil {
		return err
	}
	for _, flag := range []string{"server", "tool", "args"} {
		if c.IsSet(flag) {
			return usage("--from makes a task of the calls of a trial; leave out --%s", flag)
		}
	}
	dir, trial, err := trialNamed(c.String("from"), c.Args().Get(c.Args().Len()-1))
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%d", filepath.Base(filepath.Dir(string(dir))), trial.Number)
	if c.Args().Len() > 1 {
		name = c.Args().First()
	}
	if err := mcpconfig.CheckName(name); err != nil {
		return usage("%q cannot be the name of a task: use letters, digits, - and _, as in waza new task NAME --from RUN TASK/N", text.Inert(name))
	}
	a, err := openEval(c)
	if err != nil {
		return err
	}
	own, err := cassetteOf(s, c.String("from"), []evidence.Dir{dir})
	if err != nil {
		return err
	}
	made, err := caseOf(dir, trial, name)
	if err != nil {
		return err
	}
	made.Prompt = ownPrompt(a, trial)
	content, err := made.File()
	if err != nil {
		return err
	}
	to, named := a.relPath(defaultCassette), a.doc.Has("config", "cassette")
	if in := ""; named && a.doc.DecodeAt(&in, "config", "cassette") {
		if to = in; !filepath.IsAbs(in) {
			to = a.relPath(in)
		}
	}
	file, _ := a.taskFile(name)
	fixtures := a.relPath(made.ContextDir)
	for _, there := range []string{a.relPath(file), filepath.Join(to, "tasks", name), fixtures} {
		if _, err := os.Lstat(there); err == nil && (there != fixtures || made.ContextDir != "") {
			return usage("%s exists already; choose another name, or remove it", there)
		}
	}
	if err := own.AddTask(to, trial.Task, name); err != nil {
		return usage("%w", err)
	}
	if err := putFiles(dir, fixtures, made.Paths); err != nil {
		return usage("%w", err)
	}
	if err := addTask(s, a, name, content); err != nil {
		return err
	}
	play := ""
	if !named {
		play = " --cassette " + text.ShellWord(to)
	}
	fmt.Fprintf(s.stdout, "%s has %s for it\nplay it with: waza run %s --task %s%s\n", to, inCassette(own), text.ShellWord(a.path), name, play)
	return nil
}

// trialNamed returns the trial of a run that the command line names as TASK/N.
func trialNamed(run, which string) (evidence.Dir, evidence.Trial, error) {
	dir, err := runNamed(run)
	if err != nil {
		return "", evidence.Trial{}, err
	}
	if _, err := runner.ReadRecord(dir); err != nil {
		return "", evidence.Trial{}, usage("--from: %w", err)
	}
	found, err := trialsNamed(dir, which)
	switch {
	case err != nil:
		return "", evidence.Trial{}, withExitCode(err)
	case len(found) == 0:
		return "", evidence.Trial{}, noTrial(dir, which)
	case len(found) > 1:
		return "", evidence.Trial{}, usage("%s has %d trials of %s; name one, such as %s/1", dir, len(found), text.Inert(which), text.Inert(which))
	}
	trial, err := found[0].Trial()
	if err != nil {
		return "", evidence.Trial{}, usage("%w", err)
	}
	return found[0], trial, nil
}

// caseOf returns the content of a task that repeats a trial.
func caseOf(dir evidence.Dir, trial evidence.Trial, name string) (scaffold.Case, error) {
	made := scaffold.Case{
		ID: name, From: trial.Run + ": " + trial.ID().String(),
		Scripted: trial.Executor == evidence.ExecutorScript, Output: trial.FinalOutput,
	}
	captured, err := capture.Calls(dir.Frames())
	if err != nil {
		return made, usage("%w", err)
	}
	for _, call := range captured.Calls {
		made.Calls = append(made.Calls, scaffold.Called{ToolRef: call.ToolRef(), Arguments: call.Arguments, Outcome: call.Outcome})
	}
	var plan struct {
		Agent struct {
			FollowUps []string `json:"follow_up_prompts"`
		} `json:"agent"`
		Files []struct {
			Path string `json:"path"`
		} `json:"files"`
		Repos []map[string]any `json:"repos"`
	}
	if len(trial.Plan) > 0 {
		if err := jsontext.Unmarshal(trial.Plan, &plan); err != nil {
			return made, usage("the plan in trial.json cannot be read: %w", err)
		}
	}
	made.FollowUps = plan.Agent.FollowUps
	for _, repo := range plan.Repos {
		delete(repo, "sha")
		made.Repos = append(made.Repos, repo)
	}
	planted := map[string]bool{}
	for _, canary := range trial.Canaries {
		for _, at := range canary.Planted {
			planted[at.File] = planted[at.File] || at.Server == ""
		}
	}
	for _, file := range plan.Files {
		if files.IsInside(file.Path) && !planted[file.Path] {
			made.Paths = append(made.Paths, path.Clean(file.Path))
		}
	}
	if len(made.Paths) > 0 {
		made.ContextDir = path.Join("fixtures", name)
	}
	return made, nil
}

// ownPrompt returns the prompt of a trial without the text that the eval puts before all prompts, if the eval
// still has the task.
func ownPrompt(a *evalEdit, trial evidence.Trial) string {
	_, tasks, _ := eval.Load(a.path, eval.Options{}) // waza check reports errors in it
	for _, t := range tasks {
		if t.ID == trial.Task && strings.HasSuffix(trial.Prompt, "\n\n"+t.Prompt) {
			return t.Prompt
		}
	}
	return trial.Prompt
}

// putFiles copies files of a trial's workspace, as it was before the agent started, to a directory.
func putFiles(trial evidence.Dir, to string, paths []string) (err error) {
	if len(paths) == 0 {
		return nil
	}
	before, err := files.Open(filepath.Join(string(trial), evidence.BeforeFile))
	if err != nil {
		return err
	}
	defer func() { _ = before.Close() }()
	if err := files.MakeDir(to); err != nil {
		return err
	}
	root, err := files.Dir(to)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for e, err := range tree.Entries(before) {
		if err != nil {
			return err
		}
		if e.Typeflag == tar.TypeReg && slices.Contains(paths, e.Path) {
			if err := putFile(root, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func putFile(root *os.Root, e tree.Entry) error {
	if err := root.MkdirAll(path.Dir(e.Path), 0o755); err != nil {
		return err
	}
	file, err := root.OpenFile(e.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, e.FileInfo().Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(file, e.Content)
	return errors.Join(err, file.Close())
}
