package eval_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// unpack writes an archive's files into a new directory and changes to it.
func unpack(t *testing.T, archive *txtar.Archive) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range archive.Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func refuseScript(doc *strictyaml.Document, at ...any) {
	if step := append(at, 0, "refuse"); doc.Has(step...) {
		doc.KeyProblemf(step, "refuse is not a step")
	}
}

// TestMessages loads the eval of each archive in testdata/bad and compares what
// is said about it with the golden beside it.
func TestMessages(t *testing.T) {
	archives, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, path := range archives {
		t.Run(filepath.Base(path), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file, err := filepath.Abs(strings.TrimSuffix(path, ".txtar") + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			unpack(t, archive)
			_, _, err = eval.Load("eval.yaml", eval.Options{CheckScript: refuseScript})
			var all strictyaml.Errors
			if !errors.As(err, &all) {
				t.Fatalf("got %v, want problems", err)
			}
			got := err.Error() + "\n"
			golden.Check(t, file, got)
		})
	}
}

func TestLoad(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/good.txtar")
	if err != nil {
		t.Fatal(err)
	}
	unpack(t, archive)
	e, tasks, err := eval.Load("evals/eval.yaml", eval.Options{CheckScript: refuseScript})
	if err != nil {
		t.Fatal(err)
	}
	if e.Name != "inventory" || e.Path != "evals/eval.yaml" || e.Dir() != "evals" || e.Config.Workers != 2 {
		t.Errorf("eval: %+v", e)
	}
	want := []eval.ResolvedTask{
		{
			ID: "restock", Name: "Restock", Description: "d", Tags: []string{"a", "b"}, Path: "evals/tasks/restock.yaml", Line: 1,
			Prompt:  "Restock.\n",
			Context: map[string]any{"order": json.Number("9007199254740993")},
			Env:     map[string]string{"A": "task", "B": "eval", "C": "task"},
			Files: []eval.WorkspaceFile{
				{Path: "data/in.txt", Source: &eval.Source{Dir: "evals/fixtures", Path: "data/in.txt", Size: 6}},
				{Path: "empty.txt", Content: []byte{}},
				{Path: "note.txt", Content: []byte("hi")},
			},
			Timeout: 5 * time.Second,
			Graders: []evidence.GraderSpec{
				{Name: "eval", Type: "text", Weight: 1, Config: json.RawMessage(`{"contains":["x"]}`), From: "evals/eval.yaml"},
				{Name: "_output_contains", Type: "text", Weight: 1, Config: json.RawMessage(`{"contains":["done"]}`), From: "evals/tasks/restock.yaml"},
				{Name: "_output_not_contains", Type: "text", Weight: 1, Config: json.RawMessage(`{"not_contains":["sorry"]}`), From: "evals/tasks/restock.yaml"},
				{Name: "expected:behavior", Type: "behavior", Weight: 1, Config: json.RawMessage(`{"max_tool_calls":3,"required_tools":["t"]}`), From: "evals/tasks/restock.yaml"},
				{Name: "own", Type: "behavior", Weight: 2.5, Config: json.RawMessage(`{"max_mcp_calls":0}`), From: "evals/tasks/restock.yaml"},
			},
			Servers: map[string]mcpconfig.Server{
				"inventory": {Command: "serve", Args: []string{"-v"}, Env: map[string]string{"A": "1", "B": "${B}"}, Timeout: 2500, Files: map[string]string{"/data/stock.json": "stock.json"}},
				"extra":     {Image: "extra"},
			},
			Script: json.RawMessage(`[{"say":"hi"}]`),
		},
		{
			ID: "plain", Name: "plain", Path: "evals/tasks/plain.yaml", Line: 1, Prompt: "p",
			Env: map[string]string{"A": "eval", "B": "eval"}, Timeout: time.Minute,
			Graders: []evidence.GraderSpec{{Name: "eval", Type: "text", Weight: 1, Config: json.RawMessage(`{"contains":["x"]}`), From: "evals/eval.yaml"}},
			Servers: map[string]mcpconfig.Server{
				"inventory": {Command: "serve", Env: map[string]string{"A": "1"}, Files: map[string]string{"/data/stock.json": "stock.json"}},
				"other":     {Image: "other"},
			},
			Script: json.RawMessage(`[{"say":"ho"}]`),
		},
	}
	if diff := cmp.Diff(want, tasks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, content := range []string{"input\n", "", "hi"} {
		if got := read(t, tasks[0].Files[i]); got != content {
			t.Errorf("file %d holds %q", i, got)
		}
	}
	files, err := eval.Sources(e, tasks[0].Servers["inventory"].Files)
	if err != nil || files["/data/stock.json"].Size != 3 {
		t.Errorf("server files: %+v, %v", files, err)
	}
	if _, err := eval.Sources(e, map[string]string{"/x": "../eval.yaml"}); err == nil {
		t.Error("a server's file leaves the eval's directory")
	}
}

func read(t *testing.T, f eval.WorkspaceFile) string {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const minimal = "name: x\nconfig: {trials_per_task: 1, timeout_seconds: 1, executor: mock}\ntasks: ['t*.yaml', 't.yaml']\n"

func archive(files ...string) *txtar.Archive {
	a := &txtar.Archive{}
	for i := 0; i < len(files); i += 2 {
		a.Files = append(a.Files, txtar.File{Name: files[i], Data: []byte(files[i+1])})
	}
	return a
}

// TestContextDir checks that --context-dir takes the place of fixtures.
func TestContextDir(t *testing.T) {
	unpack(t, archive(
		"eval.yaml", minimal,
		"t.yaml", "id: t\ninputs: {prompt: p, files: [{path: a.txt}]}\n",
		"other/a.txt", "other", "fixtures/a.txt", "fixtures",
	))
	for dir, want := range map[string]string{"": "fixtures", "other": "other"} {
		_, tasks, err := eval.Load("eval.yaml", eval.Options{ContextDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, tasks[0].Files[0]); got != want {
			t.Errorf("context dir %q gives %q", dir, got)
		}
	}
}

func TestOwnClientConfig(t *testing.T) {
	e := strings.Replace(minimal, "mock", "mock, isolation: {mcp_json: keep}", 1)
	unpack(t, archive("eval.yaml", e, "t.yaml", "id: t\ninputs: {prompt: p, files: [{path: .mcp.json, content: '{}'}]}\n"))
	_, tasks, err := eval.Load("eval.yaml", eval.Options{})
	if err != nil || tasks[0].Files[0].Path != ".mcp.json" {
		t.Errorf("%+v, %v", tasks, err)
	}
}

// TestLinks checks that a fixture may be a link, but not out of the fixtures.
func TestLinks(t *testing.T) {
	unpack(t, archive(
		"eval.yaml", minimal, "secret", "s", "fixtures/a.txt", "a",
		"t.yaml", "id: t\ninputs: {prompt: p, files: [{path: in}, {path: out}]}\n",
	))
	for name, target := range map[string]string{"in": "a.txt", "out": "../secret"} {
		if err := os.Symlink(target, filepath.Join("fixtures", name)); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := eval.Load("eval.yaml", eval.Options{})
	var all strictyaml.Errors
	if !errors.As(err, &all) || len(all) != 1 || !strings.Contains(all[0].Message, `file "out" cannot be read`) {
		t.Errorf("got %v", err)
	}
}

func TestUnreadable(t *testing.T) {
	unpack(t, archive("eval.yaml", minimal, "t.yaml/x", ""))
	for path, want := range map[string]string{
		"nowhere.yaml": "nowhere.yaml: no such file or directory; correct the path",
		"eval.yaml":    "t.yaml: cannot be read: is a directory",
	} {
		_, _, err := eval.Load(path, eval.Options{})
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, _, err := eval.Load("nowhere.yaml", eval.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not wrap its cause", err)
	}
}

// TestGlobDirectory checks that the eval's directory is not read as a pattern.
func TestGlobDirectory(t *testing.T) {
	unpack(t, archive("[a]*/eval.yaml", minimal, "[a]*/t.yaml", "id: t\ninputs: {prompt: p}\n", "ab/t2.yaml", "not: read\n"))
	_, tasks, err := eval.Load("[a]*/eval.yaml", eval.Options{})
	if err != nil || len(tasks) != 1 {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
}

func FuzzLoad(f *testing.F) {
	archives, _ := filepath.Glob("testdata/bad/*.txtar")
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		var e, task []byte
		for _, file := range archive.Files {
			switch {
			case file.Name == "eval.yaml":
				e = file.Data
			case strings.HasSuffix(file.Name, ".yaml"):
				task = file.Data
			}
		}
		f.Add(string(e), string(task))
	}
	f.Fuzz(func(t *testing.T, e, task string) {
		dir := t.TempDir()
		for name, text := range map[string]string{"eval.yaml": e, "a.yaml": task} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, tasks, err := eval.Load(filepath.Join(dir, "eval.yaml"), eval.Options{})
		if err == nil && len(tasks) == 0 {
			t.Error("neither tasks nor an error")
		}
	})
}

// TestAttack checks what a task's attack comes to, and that its words stand behind what
// the file had.
func TestAttack(t *testing.T) {
	unpack(t, txtar.Parse([]byte(`
-- eval.yaml --
name: x
config:
  trials_per_task: 1
  timeout_seconds: 1
  executor: mock
  canaries: {key: {plant: [{file: .env}]}}
tasks: [task.yaml]
-- fixtures/a.txt --
from the fixtures
-- task.yaml --
id: t
inputs: {prompt: p, files: [{path: a.txt}]}
graders: [{type: text, name: said, config: {contains: [x]}}]
attack:
  goal: g
  inject: [{file: a.txt, append: more}, {file: .env, append: more}, {file: new.txt, content: ""}]
  success: [{type: canary, name: sent, config: {leaked: true}}]
`)))
	_, tasks, err := eval.Load("eval.yaml", eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	task := tasks[0]
	if len(task.Files) != 1 || len(task.Graders) != 1 || task.Attack == nil || len(task.Attack.Inject) != 3 || task.Attack.Gate {
		t.Fatalf("%+v", task)
	}
	if success := task.Attack.Success; len(success) != 1 || success[0].Name != "sent" || success[0].Weight != 1 {
		t.Errorf("success: %+v", success)
	}
	file := task.Files[0]
	file.Added = []byte("more")
	content, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(content)
	if err := errors.Join(err, content.Close()); err != nil || string(data) != "from the fixtures\nmore" || file.Size() != int64(len(data)) {
		t.Errorf("%q of %d bytes, %v", data, file.Size(), err)
	}
}
