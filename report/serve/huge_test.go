package serve

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/report/view"
)

// Files without end are not read to it.
func TestHugeFiles(t *testing.T) {
	t.Parallel()
	const huge = 1 << 40
	dir := t.TempDir()
	for _, name := range []string{"run.json", "results.json", "progress.jsonl", "trials/buy/1/calls.jsonl", "trials/buy/1/trial.json"} {
		at := makeRun(t, dir, strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(filepath.Join(at, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(at, name), huge); err != nil {
			t.Skipf("SKIPPED: this file system has no files of %d bytes: %v", int64(huge), err)
		}
	}
	s := open(t, dir)
	list := s.list()
	problems := 0
	for _, run := range list {
		if run.Problem != "" {
			problems++
		}
	}
	if len(list) != 5 || problems != 2 {
		t.Errorf("%+v", list)
	}
	s.page("/")
	for _, path := range []string{
		"/runs/trials-buy-1-calls.jsonl/overview", "/runs/trials-buy-1-calls.jsonl/trial/buy/1", "/runs/trials-buy-1-trial.json/trial/buy/1",
	} {
		if got := s.ask(path, nil); !strings.Contains(got.body, "of which almost nothing was ever written") {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
	got := s.ask("/runs/run.json/files/run.json", func(r *http.Request) { r.Header.Set("Range", "bytes=5-9") })
	if got.StatusCode != http.StatusPartialContent || len(got.body) != 5 || !strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%s, %d bytes, %v", got.Status, len(got.body), got.Header)
	}
}

// JSON of nothing but values, which takes many times its bytes to hold, is not held.
func TestManyValues(t *testing.T) {
	heavytest.Mark(t)
	t.Parallel()
	dir := t.TempDir()
	bomb := strings.Repeat("{},", jsontext.MaxValues)
	for name, content := range map[string]string{
		"run.json": `{"tasks": [` + bomb + `{}]}`, "trials/buy/1/trial.json": `{"servers": [` + bomb + `{}]}`, "trials/buy/1/verdicts.json": `{"verdicts": [` + bomb + `{}]}`,
		"trials/buy/1/events.jsonl": `{"data": {"a": [` + bomb + `{}]}}`, "trials/buy/1/calls.jsonl": `{"notes": [` + bomb + `{}]}`,
	} {
		lay(t, filepath.Join(makeRun(t, dir, filepath.Base(name)), name), content)
	}
	s := open(t, dir)
	if r := s.list()["run.json"]; r.State != view.StateUnreadable || !strings.Contains(r.Problem, "values") {
		t.Errorf("%+v", r)
	}
	for _, id := range []string{"trial.json", "verdicts.json"} {
		for _, path := range []string{"/runs/" + id + "/overview", "/runs/" + id + "/trial/buy/1"} {
			if got := s.ask(path, nil); !strings.Contains(got.body, "more than 1048576 values") {
				t.Errorf("%s: %s", path, got.Status)
			}
		}
	}
	for _, path := range []string{"/runs/events.jsonl/trial/buy/1", "/runs/calls.jsonl/trial/buy/1"} {
		if got := s.ask(path, nil); !strings.Contains(got.body, "it has more than 1048576 values") {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
}

// Words without end are cut where runs are listed, also those that errors repeat.
func TestLongWords(t *testing.T) {
	heavytest.Mark(t)
	t.Parallel()
	dir := t.TempDir()
	long := strings.Repeat("1", 1<<20)
	lay(t, filepath.Join(dir, "words", "run.json"), `{"network": "`+long+`", "eval": {"name": "`+long+`", "executor": "`+long+`", "model": "`+long+`"}}`)
	lay(t, filepath.Join(dir, "number", "run.json"), `{"trials_per_task": `+long+`}`)
	at := makeRun(t, dir, "trial")
	lay(t, filepath.Join(at, "trials", "buy", "1", "trial.json"), `{"number": `+long+`}`)
	s := open(t, dir)
	for _, path := range []string{"/", "/runs/words/overview", "/runs/number/overview", "/runs/trial/overview", "/runs/trial/trial/buy/1"} {
		if got := s.ask(path, nil); len(got.body) > 200<<10 {
			t.Errorf("%s: %s, %d bytes", path, got.Status, len(got.body))
		}
	}
}

// A request is no longer than one needs.
func TestLongRequests(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	long, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	long.Header.Set("X-Long", strings.Repeat("a", 1<<20))
	if got, err := s.client.Do(long); err == nil { // else it was cut off
		_ = got.Body.Close()
		if got.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a header of 1 MiB: %s", got.Status)
		}
	}
}
