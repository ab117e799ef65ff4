package results

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Only the keys before the tasks are read.
func TestReadHead(t *testing.T) {
	want := Results{
		EvalName: "shop", Config: Config{EngineType: "script"}, Summary: Summary{TotalTests: 2, Succeeded: 1},
		Metrics: map[string]Measure{"m": {Value: .5}}, Tasks: []Task{{TestID: "a"}},
	}
	var file bytes.Buffer
	if err := want.Write(&file, nil); err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(file.String(), `"tasks"`)
	got, err := ReadHead(strings.NewReader(before + `"tasks": [` + strings.Repeat("broken", 10)))
	want.Tasks = nil
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestReadHeadOfNone(t *testing.T) {
	for _, text := range []string{"", "[]", "{}", `{"eval_name": 1}`, `{"eval_name": "a", "summary": {"total_te`, `{"eval_name": "` + strings.Repeat("a", maxHead) + `"}`} {
		if _, err := ReadHead(strings.NewReader(text)); !errors.Is(err, errNoHead) {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

func FuzzReadHead(f *testing.F) {
	f.Add([]byte(`{"eval_name": "a", "config": {}, "summary": {"total_tests": 1}, "metrics": {}, "servers": []`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if head, err := ReadHead(bytes.NewReader(text)); err == nil && (head.EvalName == "" || head.Tasks != nil) {
			t.Errorf("%+v", head)
		}
	})
}
