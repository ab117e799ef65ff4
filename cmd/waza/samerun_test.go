package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner"
)

// reported is the outcome of a run without times and random values: results, verdicts and the
// evidence of each trial.
type reported struct {
	Results    any
	Trials     map[string]trialReported
	Undigested []string
}

type trialReported struct {
	Record    any
	Verdicts  string
	Frames    []string
	Calls     []string
	Stdout    string
	Workspace []string
}

// tell reads the run in a directory of the project.
func tell(t *testing.T, p *project) reported {
	t.Helper()
	run := p.path("run")
	all := reported{Results: timeless(t, p.read("run", "results.json")), Trials: map[string]trialReported{}}
	dirs, err := runner.Trials(run)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		name, err := filepath.Rel(run, string(d))
		if err != nil {
			t.Fatal(err)
		}
		all.Trials[name] = tellTrial(t, d)
	}
	all.Undigested = undigested(t, p)
	return all
}

func tellTrial(t *testing.T, d evidence.Dir) (reported trialReported) {
	t.Helper()
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(string(d), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	reported.Record, reported.Verdicts, reported.Stdout = timeless(t, read(evidence.TrialFile)), read(evidence.VerdictsFile), read(evidence.StdoutFile)
	for f, err := range d.Frames() {
		if err != nil {
			t.Fatal(err)
		}
		if f.OfAgent() { // servers are probed at once, and again until they answer
			reported.Frames = append(reported.Frames, fmt.Sprintf("%s %s %s %s", f.Server, f.Dir, f.Synthetic, f.Raw))
		}
	}
	calls, err := d.Calls()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		result, err := c.Result.Raw()
		if err != nil {
			t.Fatal(err)
		}
		reported.Calls = append(reported.Calls, fmt.Sprintf("%d %s %s %s %s %s", c.Seq, c.Server, c.Tool, c.Arguments, result, c.Outcome))
	}
	reported.Workspace = listing(t, filepath.Join(string(d), evidence.WorkspaceFile))
	return reported
}

func listing(t *testing.T, file string) (lines []string) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	for archive := tar.NewReader(in); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %o %s %q", header.Name, header.Mode, header.Linkname, content))
	}
}

// drawn are keys with values that differ between runs, such as times.
var drawn = regexp.MustCompile(`(?i)^(t|timestamp|started|ended|agent_started|agent_ended|.*duration.*|eval_id|eval_name|run|session_id|id|conn|time.*|start|end|cpu_seconds|memory_peak)$`)

// measured are keys with values computed from measurements: resource usage, durations of calls,
// and the limit on evidence, which depends on the disk's free space.
var measured = regexp.MustCompile(`^(used|latency|evidence)$`)

// timeless returns a JSON document without values that differ between runs.
func timeless(t *testing.T, document string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		t.Fatal(err)
	}
	return without(v)
}

func without(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if _, text := value.(string); measured.MatchString(key) || drawn.MatchString(key) && (text || isNumber(value)) {
				delete(v, key)
				continue
			}
			v[key] = without(value)
		}
	case []any:
		for i := range v {
			v[i] = without(v[i])
		}
	}
	return v
}

func isNumber(v any) bool { _, ok := v.(float64); return ok }

// undigested returns the files of the run whose digest in run.json is missing or wrong.
func undigested(t *testing.T, p *project) (names []string) {
	t.Helper()
	record := p.record()
	if err := record.WriteDigests(p.path("run")); err != nil {
		t.Fatal(err)
	}
	for name, digest := range p.record().Files {
		if record.Files[name] != digest {
			names = append(names, name)
		}
	}
	return names
}

// same fails the test unless the project's run has the same outcome as another.
func (p *project) same(t *testing.T, want reported) {
	t.Helper()
	if diff := cmp.Diff(want, tell(t, p)); diff != "" {
		t.Errorf("the resumed run is another than an undisturbed one (-undisturbed +resumed):\n%s", diff)
	}
}

// aside returns what was set aside of all trials, as trials/TASK/N/KIND/K.
func (p *project) aside(kind string) (names []string) {
	found, _ := filepath.Glob(p.path("run", "trials", "*", "*", kind, "*"))
	for _, name := range found {
		if _, err := strconv.Atoi(filepath.Base(name)); err == nil {
			names = append(names, strings.TrimPrefix(name, p.path("run")+"/"))
		}
	}
	slices.Sort(names)
	return names
}
