package adapter_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// Every agent that comes with waza can be read, and its image can be built: the lock has
// just its packages.
func TestBuiltin(t *testing.T) {
	built, exact := 0, regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	for _, name := range adapter.Names() {
		a, ok := adapter.Builtin(name)
		if !ok || a.Name != name || len(a.Models) == 0 || a.Transcript == nil || a.Skills == "" {
			t.Errorf("%s: %+v", name, a)
		}
		i, err := a.Build(images.Bases{}, adapter.Lock())
		if err != nil || i == nil || i.Entry == nil {
			t.Errorf("%s: its packages are not in %s; go generate ./agents/adapter: %v", name, adapter.LockFile, err)
			continue
		}
		for _, w := range i.Package.Wanted {
			if !exact.MatchString(w.Spec) {
				t.Errorf("%s: %s is no exact version", name, w.Text)
			}
		}
		built++
	}
	if adapter.Lock().Len() != built {
		t.Errorf("the lock has %d packages, and %d are wanted", adapter.Lock().Len(), built)
	}
	if meant, ok := adapter.Builtin("copilot-sdk"); !ok || meant.Name != "copilot" {
		t.Errorf("copilot-sdk is %+v", meant)
	}
	if _, ok := adapter.Builtin("lock"); ok {
		t.Error("the lock is taken for an agent")
	}
}

func TestFill(t *testing.T) {
	values := map[string]string{"home": "/h", "model": "{{home}}", "mcp_servers": "{}"}
	for text, want := range map[string]string{
		"{{home}}/x/{{home}}":         "/h/x//h",
		"{{model}}":                   "{{home}}", // a value is no template
		`{"a":{"b":{{mcp_servers}}}}`: `{"a":{"b":{}}}`,
		"{{prompt}} {home} {{{}}} {{": "{{prompt}} {home} {{{}}} {{",
		"{{ home }}":                  "{{ home }}",
	} {
		if got := adapter.Fill(text, values); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

const minimal = "title: Mine\nimage: example/mine\ncommand: [mine]\n"

func TestParse(t *testing.T) {
	a, err := adapter.Parse("dir/my-agent.yaml", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&adapter.Adapter{Name: "my-agent", Title: "Mine", Image: "example/mine", Command: []string{"mine"}}, a); diff != "" {
		t.Error(diff)
	}
}

func TestParseErrors(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"unknown key":       {minimal + "promt: file\n", `a.yaml:4:1: unknown key "promt"; did you mean "prompt"?`},
		"no command":        {"title: x\n", `missing key "command"`},
		"template":          {minimal + "env: {A: '{{modle}}'}\n", "a.yaml:4:10: env.A: unknown template {{modle}}; did you mean \"model\"?"},
		"spaces":            {minimal + "env: {A: '{{ home }}'}\n", "unknown template {{ home }}"},
		"servers in env":    {minimal + "env: {A: '{{mcp_servers}}'}\n", "unknown template {{mcp_servers}}"},
		"prompt in text":    {"title: x\ncommand: [a, 'say {{prompt}}']\n", "command[1]: {{prompt}} must be an argument of its own"},
		"prompt twice":      {"title: x\ncommand: [a, '{{prompt}}']\nprompt: stdin\n", "prompt hands it over by stdin"},
		"no program":        {"title: x\ncommand: ['']\n", "command[0]: names no program"},
		"two images":        {minimal + "npm: [a@1.0.0]\n", "give one of them"},
		"no package":        {"title: x\ncommand: [a]\nnpm: ['git+ssh://x']\n", "npm:"},
		"setup of nothing":  {minimal + "setup: echo\n", "setup: has no effect without npm"},
		"home":              {minimal + "env: {HOME: /x}\n", "env.HOME: is set by waza itself"},
		"odd variable":      {minimal + "env: {A-B: /x}\n", `"A-B" is not a variable's name`},
		"leads out":         {minimal + "files: {../x: a}\n", `"../x" must be a path below home`},
		"file as directory": {minimal + "files: {x: a, x/y: b}\n", `"x" is a directory too, of "x/y"`},
		"skills":            {minimal + "skills: /x\n", "skills: must be the path of a directory in the workspace"},
		"skills everywhere": {minimal + "skills: ./.\n", "a.yaml:4:9: skills: must be the path of a directory in the workspace"},
		"kind":              {minimal + "models: [{kind: claude}]\n", "models[0].kind"},
		"kind twice":        {minimal + "models: [{kind: google}, {kind: google}]\n", "google appears twice"},
		"url without":       {minimal + "env: {A: '{{model_url}}'}\n", "models names no provider"},
		"output":            {minimal + "output: transcript\n", "output: the messages of the transcript need the key transcript"},
		"output outside":    {minimal + "output: /x\n", "output: must be stdout, transcript or"},
		"transcript":        {minimal + "transcript: {from: stdout, format: jsonl}\n", "transcript.events: format jsonl needs events"},
		"transcript from":   {minimal + "transcript: {from: ../x, format: waza}\n", "transcript.from: must be stdout"},
		"exit code":         {minimal + "exit_codes: {'0': fine}\n", `"0" is not an exit code`},
		"shape":             {minimal + "mcp: cursor\n", "mcp"},
		"image":             {"title: x\ncommand: [a]\nimage: 'a b'\n", "image: must not hold blanks"},
		"two documents":     {minimal + "---\n" + minimal, "document"},
	} {
		_, err := adapter.Parse("a.yaml", []byte(tc.text))
		var problems strictyaml.Errors
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoad(t *testing.T) {
	if _, err := adapter.Load("missing.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if a, err := adapter.Load("claude.yaml"); err != nil || a.Name != "claude" {
		t.Errorf("%+v, %v", a, err)
	}
}

// An adapter comes from a repository that anybody may have written to. What is read of
// one writes below home alone, and sets none of waza's own variables.
func FuzzParse(f *testing.F) {
	for _, name := range adapter.Names() {
		data, err := os.ReadFile(name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(minimal + "files: {.x/y: '{{mcp_servers}}'}\nmcp: codex\nexit_codes: {'3': no}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := adapter.Parse("f.yaml", data)
		if err != nil {
			return
		}
		for name := range a.Files {
			if strings.HasPrefix(name, "/") || strings.Contains("/"+name+"/", "/../") {
				t.Errorf("a file at %q", name)
			}
		}
		for name := range a.Env {
			if name == "HOME" || strings.ContainsAny(name, "=\x00") {
				t.Errorf("variable %q", name)
			}
		}
		if len(a.Command) == 0 {
			t.Error("no command")
		}
	})
}
