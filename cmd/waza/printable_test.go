package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
)

// evilText controls terminals, and logs of CI systems.
const evilText = "\x1b]52;c;eA==\a\x1b]8;;http://x.example\x1b\\\x7f\u009b31m\u202e\r\n  ::error::x\n##vso[task.complete]\n"

func checkPrintable(t *testing.T, what, out string) {
	t.Helper()
	if i := strings.IndexFunc(out, func(c rune) bool { return c != '\n' && c != '\t' && !unicode.IsGraphic(c) }); i >= 0 {
		t.Errorf("%s: %q gets through in %q", what, out[i], out[max(0, i-20):i+10])
	}
	if found := obeyedByCI.FindString(out); found != "" {
		t.Errorf("%s: a CI system obeys %q", what, found)
	}
}

// TestStrangersRun grades, compares and shows a run directory that somebody else wrote.
func TestStrangersRun(t *testing.T) {
	r := newRecorded(t)
	r.trial(evidence.Trial{Task: "t", Number: 1, FinalOutput: evilText},
		evidence.Verdicts{Class: evidence.ClassFail, Message: evilText, Verdicts: []evidence.Verdict{{Name: "g", Result: evidence.VerdictFail, Feedback: evilText}}}, nil, nil)
	name, err := json.Marshal(evilText)
	r.must(err)
	foreign := `{"eval_name": ` + string(name) + `, "config": {"engine_type": ` + string(name) + `}, "tasks": [{"test_id": ` + string(name) + `, "runs": [{"outcome": "pass"}]}]}`
	r.must(os.WriteFile(filepath.Join(r.dir, "results.json"), []byte(foreign), 0o644))
	for _, args := range [][]string{
		{"compare", r.dir, filepath.Join(r.dir, "results.json")},
		{"compare", "--format", "json", r.dir, r.dir},
		{"show", r.dir, "t"},
	} {
		s, out, errs := testState(args...)
		s.main(t.Context())
		if out.Len() == 0 {
			t.Errorf("%q: %s", args, errs)
		}
		checkPrintable(t, args[0], out.String()+errs.String())
	}
}

// TestJSONOfResults is what --format json prints of a results.json.
func TestJSONOfResults(t *testing.T) {
	dir := t.TempDir()
	text, err := evidence.MarshalIndent(map[string]any{"output": evilText, "lines": []string{"::error::x"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := copyTo(newStdout(&out), dir, "results.json"); err != nil {
		t.Fatal(err)
	}
	checkPrintable(t, "results", out.String())
	var want, got any
	if json.Unmarshal(text, &want) != nil || json.Unmarshal(out.Bytes(), &got) != nil || !reflect.DeepEqual(want, got) {
		t.Errorf("%s is not %s", out.String(), text)
	}
}

// TestComplaintsArePrintable has an eval that a stranger wrote be complained about.
func TestComplaintsArePrintable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eval.yaml")
	if err := os.WriteFile(path, []byte("nam\u009be: \"##vso[x]\u202e\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, out, errs := testState("run", path)
	if code := s.main(t.Context()); code != exitUsage || errs.Len() == 0 {
		t.Fatalf("%d %s", code, errs)
	}
	checkPrintable(t, "complaint", out.String()+errs.String())
}

// TestLinesOfServers is what -v shows of a server's stderr.
func TestLinesOfServers(t *testing.T) {
	var out bytes.Buffer
	w := &lineWriter{out: &out, secrets: &secret.Set{}}
	if _, err := w.Write([]byte(evilText)); err != nil {
		t.Fatal(err)
	}
	checkPrintable(t, "stderr", out.String())
}
