package grading

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestSoftErrorsAgree reads real results with labels that come from a heuristic too: an
// error hidden in a success, or no error.
func TestSoftErrorsAgree(t *testing.T) {
	path := filepath.Join("..", "..", "shared", "cases", "recorded_results_sample.jsonl")
	file, err := os.Open(path)
	if err != nil {
		t.Skipf("SKIPPED, the recorded results are not there: %v", err)
	}
	defer func() { _ = file.Close() }()
	var agreed, judged, errorsFound, errorsAll, withoutText int
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			break
		}
		var row struct {
			Text   *string
			Status string
			Call   struct {
				Tool string `json:"tool_name"`
			}
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		if row.Text == nil {
			withoutText++
			continue
		}
		result, err := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": *row.Text}}})
		if err != nil {
			t.Fatal(err)
		}
		got := softError(result)
		if row.Status == "is_error" || row.Status == "outer_error" { // labeled as errors that are not
			if errorsAll++; got != "" {
				errorsFound++
			}
			continue
		}
		if judged++; (got != "") == (row.Status == "soft_error") {
			agreed++
			continue
		}
		t.Logf("%s says %s; found %q in %q", row.Call.Tool, row.Status, got, clip(*row.Text))
	}
	t.Logf("%d of %d successes agree; of %d results with isError %d read like errors; %d rows have no text to judge",
		agreed, judged, errorsAll, errorsFound, withoutText)
	if agreed < judged-1 || errorsFound < errorsAll-2 {
		t.Errorf("%d of %d, %d of %d", agreed, judged, errorsFound, errorsAll)
	}
}

func TestSoftError(t *testing.T) {
	for _, test := range []struct {
		result string
		want   bool
	}{
		{`{"content":[{"type":"text","text":"Error: no such file"}]}`, true},
		{`{"content":[{"type":"text","text":"❌ Failed to fetch"}]}`, true},
		{`{"content":[{"type":"text","text":"{\"error\": {\"code\": 404}}"}]}`, true},
		{`{"content":[{"type":"text","text":"{\"success\": false, \"data\": null}"}]}`, true},
		{`{"structuredContent":{"status":"FAILED"},"content":[]}`, true},
		{`{"content":[{"type":"text","text":"{\"error\": null, \"data\": 1}"}]}`, false},
		{`{"content":[{"type":"text","text":"Errors in Go are values."}]}`, false},
		{`{"content":[{"type":"text","text":"The log says\nError: no such file"}]}`, false},
		{`{"content":[{"type":"text","text":"Contents of a.html:\n<error>x</error>"}]}`, false},
		{`{"content":[{"type":"image"},{"type":"text","text":"ok"},{"type":"text","text":"Error: x"}]}`, false},
		{`{"content":"Error: x"}`, false},
		{`[]`, false},
		{``, false},
	} {
		if got := softError(json.RawMessage(test.result)); (got != "") != test.want {
			t.Errorf("%s: %q", test.result, got)
		}
	}
}
