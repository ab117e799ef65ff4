// Package compat holds waza against evals that were written for upstream waza
// (microsoft/waza): those of a folder of public repositories, and the examples of
// examples/compat.
package compat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// Variables that say where the folder of repositories is, and that it must be there.
const (
	corpusEnv  = "WAZA_CORPUS"
	requireEnv = "WAZA_REQUIRE_CORPUS"
)

var figures = flag.String("figures", "", "write the figures to this `FILE` too")

// corpus is the folder whose directories are repositories.
func corpus(t *testing.T) string {
	dir := os.Getenv(corpusEnv)
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "corpus")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		if os.Getenv(requireEnv) != "" {
			t.Fatalf("there is no folder %s of repositories with evals, and %s is set", dir, requireEnv)
		}
		t.Skipf("there is no folder %s of repositories with evals; name one in %s", dir, corpusEnv)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// outcome is how far an eval comes: it is accepted where its files are, planned where a
// dry run is, and run where all of its trials have an outcome with executor mock.
type outcome struct {
	accepted, planned, run bool
	plan                   string // what the dry run prints
	skill                  bool   // the plan has the skill that the eval names, or it names none
	why                    string // the first message
}

// TestCorpus dry-runs every eval of the folder, each from the root of its repository, and
// reports which do not plan.
func TestCorpus(t *testing.T) {
	dir, waza := corpus(t), dockertest.Waza(t)
	repositories, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var total, accepted, planned, ran, skilled int
	var reported, plans strings.Builder
	for _, repository := range repositories {
		if !repository.IsDir() {
			continue
		}
		root := filepath.Join(dir, repository.Name())
		for _, file := range evals(t, root) {
			total++
			o := try(t, waza, root, file)
			for _, one := range []struct {
				holds bool
				count *int
			}{{o.accepted, &accepted}, {o.planned, &planned}, {o.run, &ran}, {o.planned && o.skill, &skilled}} {
				if one.holds {
					*one.count++
				}
			}
			name := filepath.Join(repository.Name(), file)
			fmt.Fprintf(&plans, "%x  %s\n", sha256.Sum256([]byte(o.plan)), name)
			if !o.planned && broken[name] == "" && os.Getenv(corpusEnv) == "" {
				t.Errorf("%s does not plan: %s", name, o.why)
			}
			if !o.skill {
				fmt.Fprintf(&reported, "%s: its skill is not in the plan\n", name)
			}
			if !o.planned || !o.run {
				fmt.Fprintf(&reported, "%s: planned %v, run %v: %s\n", name, o.planned, o.run, o.why)
			}
		}
	}
	fmt.Fprintf(&reported, "%d evals of %s: %d accepted, %d planned, %d of these with the skill that they name, %d run with executor mock\n", total, dir, accepted, planned, skilled, ran)
	t.Log(reported.String())
	if os.Getenv(corpusEnv) == "" { // digests, for the texts of the plans are others'
		golden.Check(t, filepath.Join("testdata", "plans.sha256"), plans.String())
	}
	if *figures != "" {
		if err := os.WriteFile(*figures, []byte(reported.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
	if total == 0 {
		t.Errorf("%s holds no eval", dir)
	}
}

// broken are those of the folder whose files are broken, and how.
var broken = map[string]string{
	"iwasa-kosui+kamae-ts/evals/kamae-review/eval.yaml": "it has no executor, and upstream refuses it too",
}

// skillOf is what an eval names as its skill.
func skillOf(t *testing.T, path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var skill string
	if doc, err := strictyaml.Parse(path, data); err == nil && doc.Has("skill") { // what is wrong with it is waza's to say
		doc.DecodeAt(&skill, "skill")
	}
	return skill
}

// try runs the eval that file is, from root.
func try(t *testing.T, waza, root, file string) outcome {
	code, plan, said := run(t, waza, root, "run", "--isolate", "--dry-run", file)
	o := outcome{accepted: code == 0 || strings.HasPrefix(said, "waza: "), planned: code == 0, plan: plan}
	skill := skillOf(t, filepath.Join(root, file))
	o.skill = skill == "" || !o.planned || strings.Contains(plan, "skill       "+skill+",")
	if o.planned {
		code, _, said = run(t, waza, root, "run", "--executor", "mock", "--trials", "1", "-q", "--run-dir", filepath.Join(t.TempDir(), "run"), file)
		o.run = code == 0 || code == 1
	}
	o.why, _, _ = strings.Cut(said, "\n")
	return o
}

// run runs waza in dir without any key, and returns its exit code and what it said.
func run(t *testing.T, waza, dir string, args ...string) (code int, stdout, stderr string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, waza, args...)
	var out, reported bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &reported
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), reported.String()
}

// evals are the files below root that are evals: mappings with config and tasks.
func evals(t *testing.T, root string) (files []string) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") && !strings.HasSuffix(path, ".yml") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		doc, err := strictyaml.Parse(path, data)
		if err != nil || !doc.Has("config") || !doc.Has("tasks") {
			return nil
		}
		file, err := filepath.Rel(root, path)
		files = append(files, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestExamples runs the examples of this repository that are written as upstream's are,
// from their root, each with the verdict that its author meant.
func TestExamples(t *testing.T) {
	waza, root := dockertest.Waza(t), filepath.Join("..", "..", "examples", "compat")
	for file, want := range map[string]int{"evals/routing/eval.yaml": 0, "evals/explain/eval.yaml": 0, "evals/unmet/eval.yaml": 1} {
		if code, _, said := run(t, waza, root, "run", "--isolate", "--dry-run", file); code != 0 {
			t.Errorf("%s does not plan: %s", file, said)
		}
		code, out, said := run(t, waza, root, "run", "--run-dir", filepath.Join(t.TempDir(), "run"), file)
		if code != want {
			t.Errorf("%s: exit code %d, want %d\n%s%s", file, code, want, out, said)
		}
	}
	if found := evals(t, root); len(found) != 3 {
		t.Errorf("examples %q, of which three are run", found)
	}
}
