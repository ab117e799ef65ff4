package strictyaml_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

type file struct {
	Name    string                     `json:"name"`
	Mode    string                     `json:"mode,omitempty" enum:"fast slow"`
	Config  config                     `json:"config,omitzero"`
	Tasks   []string                   `json:"tasks,omitempty"`
	Graders []grader                   `json:"graders,omitempty"`
	Servers map[string]*server         `json:"servers,omitempty"`
	Env     map[string]string          `json:"env,omitempty"`
	Context map[string]any             `json:"context,omitempty"`
	Raw     json.RawMessage            `json:"raw,omitempty"`
	Raws    map[string]json.RawMessage `json:"raws,omitempty"`
	Steps   []step                     `json:"steps,omitempty"`
}

// step may be given as its name alone.
type step struct {
	Name  string `json:"name"`
	Times int    `json:"times,omitempty"`
}

func (s *step) SetShort(name string) error {
	if s.Name = name; name == "nothing" {
		return errors.New("not a step")
	}
	return nil
}

type config struct {
	TrialsPerTask int     `json:"trials_per_task" min:"1" max:"100"`
	MaxWorkers    int     `json:"max_workers,omitempty"`
	CPUs          float64 `json:"cpus,omitempty" over:"0"`
	Parallel      *bool   `json:"parallel,omitempty"`
}

type grader struct {
	Type   string          `json:"type"`
	Config json.RawMessage `json:"config,omitempty"`
}

type server struct {
	Command string `json:"command,omitempty"`
	Port    int    `json:"port,omitempty"`
}

type textConfig struct {
	Contains []string `json:"contains"`
}

func decode(name string, data []byte) (file, error) {
	var f file
	doc, err := strictyaml.Parse(name, data)
	if err != nil {
		return f, err
	}
	doc.Decode(&f)
	for i, g := range f.Graders {
		if g.Type == "text" {
			doc.DecodeAt(&textConfig{}, "graders", i, "config")
		}
	}
	return f, doc.Err()
}

// TestMessages compares the messages for each file in testdata/bad with its golden file.
func TestMessages(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = decode(filepath.Base(path), data)
			if err == nil {
				t.Fatal("no error")
			}
			got := err.Error() + "\n"
			file := strings.TrimSuffix(path, ".yaml") + ".golden"
			golden.Check(t, file, got)
		})
	}
}

func TestDecode(t *testing.T) {
	got, err := decode("f.yaml", []byte("\ufeff"+`# leading comment
name: &n "déjà"   # a comment
mode: slow
config: {trials_per_task: 3, cpus: 2, parallel: false}
tasks: ["a", 'b', c]
servers:
  one: {command: run, port: 80}
  two:
  three: ~
env:
  LONG: |
    line one
    line two
  FOLD: >-
    a
    b
  SAME: *n
context:
  id: 9007199254740993
  float: 1.0
  list: [true, null, -1e3]
raw: {z: 1.50, a: "<&>", n: 123456789012345678901234567890}
raws: {x: null, y: [1, 2], z: [.5, -.5e3]}
steps: [wash, {name: dry, times: 2}]
`))
	if err != nil {
		t.Fatal(err)
	}
	no := false
	want := file{
		Name: "déjà", Mode: "slow",
		Config:  config{TrialsPerTask: 3, CPUs: 2, Parallel: &no},
		Tasks:   []string{"a", "b", "c"},
		Servers: map[string]*server{"one": {Command: "run", Port: 80}, "two": nil, "three": nil},
		Env:     map[string]string{"LONG": "line one\nline two\n", "FOLD": "a b", "SAME": "déjà"},
		Context: map[string]any{
			"id": json.Number("9007199254740993"), "float": json.Number("1.0"),
			"list": []any{true, nil, json.Number("-1e3")},
		},
		Raw:   json.RawMessage(`{"z":1.50,"a":"<&>","n":123456789012345678901234567890}`),
		Raws:  map[string]json.RawMessage{"x": json.RawMessage("null"), "y": json.RawMessage("[1,2]"), "z": json.RawMessage("[0.5,-0.5e3]")},
		Steps: []step{{Name: "wash"}, {"dry", 2}},
	}
	ignore := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == "._" }, cmp.Ignore())
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is wrong with a file is told where it is.
func TestSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"a: [":                      "1:4: this is not valid YAML: the list that begins here has no closing ]",
		"a: [x, {\n# c\n":           "1:8: this is not valid YAML: the mapping that begins here has no closing }",
		"a: {b: 1 c: 2}":            "1:10: this is not valid YAML: the mapping before this lacks a comma or its closing }",
		"a: [1\nb: 2\n":             "2:1: this is not valid YAML: the list before this lacks a comma or its closing ]",
		"a: b\n c: d\n":             `2:2: this is not valid YAML: no mapping can begin here; quote a value with ": " in it, and indent the keys of a mapping alike`,
		"a:\n  - b\n c: d\n":        "3:2: this is not valid YAML: no key can begin here; indent the keys of a mapping alike, write a colon after each, and put the whole of a value in its quotes",
		"a: \"b\" c\n":              "1:8: this is not valid YAML: no key can begin here; indent the keys of a mapping alike, write a colon after each, and put the whole of a value in its quotes",
		"- a\nb: c\n":               "2:1: this is not valid YAML: no item of the list can begin here; begin each with -, and indent them alike",
		"a: - b":                    "1:4: this is not valid YAML: no list can begin here; begin it on a line of its own, or quote a value that begins with -",
		"a: |\n x\nw\n":             "3:1: this is not valid YAML: the key that begins here has no colon; add one, or indent the line if it belongs to the value above",
		"a: ]":                      "1:4: this is not valid YAML: a value cannot begin with ]; put it in quotes, or write a value before it",
		"a: [b, , c]":               "1:8: this is not valid YAML: a value cannot begin with ,; put it in quotes, or write a value before it",
		"a: %b":                     "1:4: this is not valid YAML: a value cannot begin with %; put it in quotes",
		"a:\n\t- b":                 "2:1: this is not valid YAML: a tab cannot indent; use spaces",
		"a: >\n\tx":                 "2:1: this is not valid YAML: a tab cannot indent; use spaces",
		"é: 'x\r\n\r\n":             "1:4: this is not valid YAML: the text that begins here has no closing '",
		`a: "\q"`:                   `1:5: this is not valid YAML: the text has a \ before a character that needs none; write \\ for a backslash, or use single quotes`,
		"a: x\r\rb: 'y\u200e\a'":    "3:7: the file holds the character U+0007, which YAML does not allow; write it as \\u0007 in double quotes, or remove it",
		"a: &b\n\n  - &c d\n  - *e": "4:5: alias *e has no anchor &e before it",
	} {
		doc, err := strictyaml.Parse("f", []byte(text))
		if err == nil {
			err = doc.Err()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "f:"+want+"\n") {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
}

// A colon within a word is part of it, in braces too.
func TestColonsInWords(t *testing.T) {
	for text, want := range map[string]string{
		"{e: [b.c:443]}": `{"e":["b.c:443"]}`, "{e: [b.c:443, 'x:1', d:e]}": `{"e":["b.c:443","x:1","d:e"]}`, "[b.c:443]": `["b.c:443"]`,
		"{e: [b: 443]}": `{"e":[{"b":443}]}`, "{e: [{b: 443}]}": `{"e":[{"b":443}]}`,
	} {
		got, err := decode("f.yaml", []byte("name: n\nconfig: {trials_per_task: 1}\ntasks: [a]\nraw: "+text))
		if err != nil || string(got.Raw) != want {
			t.Errorf("%s: %s, %v", text, got.Raw, err)
		}
	}
}

func TestShorthand(t *testing.T) {
	for text, want := range map[string]string{
		"steps: [7]":                        "steps[0] must be a string or a mapping, not the number 7",
		"steps: [nothing]":                  "steps[0]: not a step",
		"steps: [{nmae: dry}]":              `unknown key "nmae"; did you mean "name"?`,
		"steps: [wash, {name: dry, times}]": "",
	} {
		_, err := decode("f.yaml", []byte("name: n\n"+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

// A key that is known somewhere near is sent there, and what is missing there is not reported as well.
func TestKeysElsewhere(t *testing.T) {
	for text, want := range map[string]string{
		"trials_per_task: 2":                       `f.yaml:2:1: unknown key "trials_per_task" here; it belongs in config`,
		"config: {trials_per_task: 1, mode: fast}": `f.yaml:2:30: unknown key "mode" here; it belongs at the top of the file`,
		"conf: {}":      `f.yaml:2:1: unknown key "conf"; did you mean "config"?`,
		"mode: {{ x }}": `f.yaml:2:7: a value with {{ must be in quotes`,
		"tasks: a":      `f.yaml:2:8: tasks must be a list, as in [a, b], not the string "a"`,
	} {
		_, err := decode("f.yaml", []byte("name: n\n"+text+"\n"))
		if err == nil || !strings.HasPrefix(err.Error(), want+"\n") || strings.Count(err.Error(), "f.yaml:") > 1 {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

func TestPositions(t *testing.T) {
	doc, err := strictyaml.Parse("f.yaml", []byte("name: x\nservers:\n  one:\n    port: 5\ntasks:\n  - a\n  - b\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path    strictyaml.Path
		at, key strictyaml.Position
		has     bool
	}{
		{nil, strictyaml.Position{Line: 1, Column: 1}, strictyaml.Position{Line: 1, Column: 1}, true},
		{strictyaml.Path{"name"}, strictyaml.Position{Line: 1, Column: 7}, strictyaml.Position{Line: 1, Column: 1}, true},
		{strictyaml.Path{"servers", "one", "port"}, strictyaml.Position{Line: 4, Column: 11}, strictyaml.Position{Line: 4, Column: 5}, true},
		{strictyaml.Path{"servers", "one", "path"}, strictyaml.Position{Line: 4, Column: 5}, strictyaml.Position{Line: 4, Column: 5}, false},
		{strictyaml.Path{"tasks", 1}, strictyaml.Position{Line: 7, Column: 5}, strictyaml.Position{Line: 7, Column: 5}, true},
		{strictyaml.Path{"tasks", 2}, strictyaml.Position{Line: 6, Column: 3}, strictyaml.Position{Line: 6, Column: 3}, false},
	} {
		if got := doc.At(tc.path...); got != tc.at {
			t.Errorf("At(%v) = %v, want %v", tc.path, got, tc.at)
		}
		if got := doc.Key(tc.path...); got != tc.key {
			t.Errorf("Key(%v) = %v, want %v", tc.path, got, tc.key)
		}
		if got := doc.Has(tc.path...); got != tc.has {
			t.Errorf("Has(%v) = %v", tc.path, got)
		}
	}
}

// TestOneProblemAPlace checks that a later check does not repeat what decoding said.
func TestOneProblemAPlace(t *testing.T) {
	doc, err := strictyaml.Parse("f.yaml", []byte("name: 5\nconfig: {trials_per_task: x}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var f file
	doc.Decode(&f)
	doc.Problemf(strictyaml.Path{"name"}, "name must be nice")
	doc.Problemf(strictyaml.Path{"config", "trials_per_task", "deeper"}, "again")
	doc.Problemf(strictyaml.Path{"config", "cpus"}, "no such thing")
	var all strictyaml.Errors
	if !errors.As(doc.Err(), &all) || len(all) != 3 {
		t.Fatalf("want 3 problems, got:\n%v", doc.Err())
	}
	if doc, err = strictyaml.Parse("f.yaml", []byte("just words\n")); err != nil {
		t.Fatal(err)
	}
	doc.Decode(&f)
	doc.Problemf(strictyaml.Path{"name"}, "a file without keys lacks this one too")
	if !errors.As(doc.Err(), &all) || len(all) != 1 {
		t.Errorf("want 1 problem, got:\n%v", doc.Err())
	}
}

func TestProblemsAreBounded(t *testing.T) {
	_, err := decode("f.yaml", []byte("name: x\n"+strings.Repeat("k: 1\n", 500)))
	var all strictyaml.Errors
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	if got, want := all[len(all)-1].Error(), "f.yaml: and 400 more problems"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestHostile reads files made to hurt. Each must be refused, and soon.
func TestHostile(t *testing.T) {
	heavytest.Mark(t)
	bomb := "a0: &a0 x\n"
	for i := range 40 {
		prev, next := string(rune('a'+i%26))+strings.Repeat("q", i), string(rune('a'+(i+1)%26))+strings.Repeat("q", i+1)
		if i == 0 {
			prev = "a0"
		}
		bomb += next + ": &" + next + " [" + strings.Repeat("*"+prev+", ", 9) + "*" + prev + "]\n"
	}
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "k%d: 1\n", i)
		}
		return b.String()
	}
	for name, tc := range map[string]struct{ in, want string }{
		"many keys":    {keys(90_000), "more problems"},
		"fewer keys":   {keys(16_000), "more problems"},
		"brackets":     {"a: " + strings.Repeat("[", 20_000), "nested more than 64 deep"},
		"braces":       {strings.Repeat("{a: ", 10_000), "nested more than 64 deep"},
		"dashes":       {strings.Repeat("- ", 20_000), "nested more than 64 deep"},
		"questions":    {strings.Repeat("? ", 20_000), "nested more than 64 deep"},
		"tags":         {"a: " + strings.Repeat("!a ", 15_000) + "b", "not valid YAML"},
		"anchors":      {"a: " + strings.Repeat("&a ", 15_000) + "b", "not valid YAML"},
		"colons":       {strings.Repeat("a: ", 15_000), "no mapping can begin here"},
		"indentation":  {indented(1000), ""},
		"bomb":         {bomb, "with its aliases written out"},
		"self":         {"a: &a [*a]", "alias *a has no anchor"},
		"too large":    {strings.Repeat("#", strictyaml.MaxBytes+1), "larger than 1024 KiB"},
		"not UTF-8":    {"name: \xff", "not UTF-8"},
		"NUL":          {"name: a\x00b", "f.yaml:1:8: the file holds the character U+0000"},
		"dashes below": {strings.Repeat("-\n", strictyaml.MaxBytes/2), "with its aliases written out"},
		"no end":       {"a: [" + strings.Repeat("a,", 100_000), "f.yaml:1:4: this is not valid YAML: the list that begins here has no closing ]"},
		"quotes":       {strings.Repeat("\"", 99_999), "no closing \""},
		"comments":     {strings.Repeat("#\n", 200_000), "the file is empty"},
		"documents":    {strings.Repeat("---\n", 100_000), "the file is empty"},
		"empty":        {"", "the file is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := decode("f.yaml", []byte(tc.in))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %.300v, want %q in it", err, tc.want)
			}
			if took := time.Since(start); took > 2*time.Minute {
				t.Errorf("took %v", took)
			} else {
				t.Log(took)
			}
		})
	}
}

func indented(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestSuggest(t *testing.T) {
	known := []string{"trials_per_task", "timeout_seconds", "workers", "max_workers", "not_workers"}
	for word, want := range map[string]string{
		"trials_per_tsk":        `did you mean "trials_per_task"?`,
		"TimeoutSeconds":        `did you mean "timeout_seconds"?`,
		"max-workers":           `did you mean "max_workers"?`,
		"wokrers":               `did you mean "workers"?`,
		"must_workers":          `did you mean "max_workers"?`,
		"zzz":                   "known here: max_workers, not_workers, timeout_seconds, trials_per_task, workers",
		strings.Repeat("w", 99): "known here: max_workers, not_workers, timeout_seconds, trials_per_task, workers",
	} {
		if got := strictyaml.Suggest(word, known); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := strictyaml.Suggest("x", nil); got != "" {
		t.Errorf("nothing known gives %q", got)
	}
}

func FuzzParse(f *testing.F) {
	seeds, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, path := range seeds {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("a: &x {b: *x}\n? c\n: - d\n<<: *x\n"))
	f.Add([]byte("name: |+2\n\t x\r\n...\n%YAML 1.2\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		got, err := decode("f.yaml", data)
		if took := time.Since(start); took > 20*time.Second {
			t.Fatalf("%d bytes took %v", len(data), took)
		}
		if err != nil {
			var all strictyaml.Errors
			if !errors.As(err, &all) || len(all) == 0 {
				t.Fatalf("not a list of problems: %T", err)
			}
			for _, one := range all {
				if one.Message == "" {
					t.Errorf("a problem says nothing: %+v", one)
				}
			}
			return
		}
		if got.Raw != nil && !json.Valid(got.Raw) {
			t.Errorf("raw is not JSON: %q", got.Raw)
		}
	})
}
