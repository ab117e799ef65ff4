package match

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// readCases reads a file of JSON lines.
func readCases[T any](t *testing.T, path string) []T {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var all []T
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var c T
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%s: %v, %d cases", path, err, len(all))
	}
	return all
}

// shared is a file of cases of other projects, which stays where it is: beside the
// project.
func shared(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join("..", "..", "..", "shared", "cases", name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("NOT TESTED against %s: it is not at %s", name, path)
	}
	return path
}

func TestEdgeCasesOfArguments(t *testing.T) {
	type edgeCase struct {
		Kind          string
		Expected, Got json.RawMessage
		Mode, Why     string
		Expect        json.RawMessage
	}
	seen := 0
	for _, c := range readCases[edgeCase](t, "../../evidence/capture/testdata/edge_cases.jsonl") {
		if c.Kind != "args" {
			continue
		}
		seen++
		args := compile(t, `{"match":"`+c.Mode+`","values":`+string(c.Expected)+`}`)
		fit := args.Check(c.Got)
		if want := string(c.Expect) == "true"; fit.Full() != want {
			t.Errorf("%s: %s for %s: %v, want %v", c.Why, c.Got, c.Expected, fit, want)
		}
		t.Logf("%s: %v", c.Why, fit)
	}
	if seen != 9 {
		t.Errorf("%d cases, want 9", seen)
	}
}
