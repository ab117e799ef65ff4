package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/agents/script"
)

func TestOutputs(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"the last said", `[{say: one}, {say: "two\n"}]`, "two\n"},
		{"nothing said", `[{sleep: 1ms}]`, ""},
		{"prompt and context", `[{say: "{{ prompt }} on {{ context.shelf }} {{ context }}"}]`,
			`count the bolts on A {"serial":9007199254740993,"shelf":"A"}`},
		{"a literal opening", `[{say: '{{ "{{" }} x }}'}]`, "{{ x }}"},
		{"a closing in a string", `[{say: '{{ "}}" + "\"}}" }}'}]`, `}}"}}`},
		{"times", `[{loop: {times: 3, as: i, steps: [{write: {path: "{{ i }}", content: "{{ i * 2 }}"}}, {read: {path: "{{ i }}"}, as: f}]}, as: all}, {say: "{{ map(all, .json) }}"}]`, "[2,4,6]"},
		{"over a list", `[{loop: {over: [a, "{{ context.shelf }}", 9007199254740993], as: x, steps: [{say: "{{ x }}"}]}}]`, "9007199254740993"},
		{"over an expression", `[{loop: {over: "{{ 2..4 }}", as: x, steps: [{say: "{{ x }}"}]}}]`, "4"},
		{"over nothing", `[{say: a}, {loop: {over: [], steps: [{fail: b}]}}]`, "a"},
		{"name again in each iteration", `[{loop: {times: 2, as: i, steps: [{loop: {times: 2, as: j, steps: [{run: {command: [echo, "{{ i }}{{ j }}"]}, as: r}, {say: "{{ r.stdout }}"}]}}]}}]`, "22\n"},
		{"json of a file", `[{write: {path: d/a.json, content: '{"n": 1.50}'}}, {read: {path: d/a.json}, as: f}, {say: "{{ f.json.n }} {{ f.text }}"}]`, `1.50 {"n": 1.50}`},
		{"run", `[{run: {command: [sh, -c, "pwd >&2; echo $COLOUR; exit 4"], expect_exit: 4}, as: r}, {say: "{{ r.stdout }}{{ r.exit_code }}"}]`, "red\n4"},
		{"any exit", `[{run: {command: [sh, -c, "kill -9 $$"], expect_exit: any}, as: r}, {say: "{{ r.exit_code }}"}]`, "-1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if o := newDesk(t).mustRun(t, test.script); o.output != test.want {
				t.Errorf("said %q, want %q", o.output, test.want)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"fail", `[{say: a}, {fail: "no {{ context.shelf }}"}]`, "script[1].fail: failed on purpose: no A"},
		{"missing field", `[{read: {path: a.json}, as: f}, {say: "{{ f.json.b.c }}"}]`,
			`script[1].say: {{ f.json.b.c }}: f.json has no "b"; it has "a"`},
		{"missing index", `[{read: {path: a.json}, as: f}, {say: "{{ f.json.a[2] }}"}]`,
			`script[1].say: {{ f.json.a[2] }}: f.json.a is a list of 1 and has no [2]`},
		{"field of a string", `[{say: "{{ prompt.x }}"}]`, `script[0].say: {{ prompt.x }}: prompt is a string and has no "x"`},
		{"over no list", `[{loop: {over: "{{ prompt }}", steps: [{say: a}]}}]`, `script[0].loop: over must be a list and is a string`},
		{"arguments no object", `[{call: {server: stock, tool: echo, arguments: "{{ prompt }}"}}]`,
			`script[0].call: arguments must be an object and are a string`},
		{"too many iterations", `[{loop: {times: 101, steps: [{loop: {times: 100, steps: [{loop: {times: 0, steps: [{say: a}]}}]}}]}}]`,
			`script[0].loop.steps[0].loop: more than 10000 iterations in all`},
		{"too much memory", `[{say: "{{ len(1..2000000) }}"}]`, `script[0].say: {{ len(1..2000000) }}: memory budget exceeded`},
		{"no number", `[{say: "{{ 0 / 0 }}"}]`, `script[0].say: {{ 0 / 0 }}: json: unsupported value: NaN`},
		{"not text", `[{read: {path: binary}}]`, `script[0].read: read binary: not UTF-8 text`},
		{"too long", `[{run: {command: [head, -c, "4194305", /dev/zero]}}]`, `script[0].run: head: stdout: more than 4194304 bytes`},
		{"no program", `[{run: {command: [./nothing]}}]`, `script[0].run: ./nothing: fork/exec ./nothing: no such file or directory`},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(t)
			d.file(t, "a.json", `{"a":[1]}`)
			d.file(t, "binary", "\xff\xfe")
			o := d.run(t.Context(), t, test.script)
			var step *script.StepError
			if !errors.As(o.err, &step) {
				t.Fatalf("error %v is no StepError", o.err)
			}
			if o.err.Error() != test.want {
				t.Errorf("error %v\nwant  %s", o.err, test.want)
			}
		})
	}
}

func TestFileStepsStayInTheWorkspace(t *testing.T) {
	for name, test := range map[string]string{
		"read above":           `[{read: {path: ../secret}}]`,
		"write absolute":       `[{write: {path: /secret, content: x}}]`,
		"write through a link": `[{write: {path: out/x, content: x}}]`,
		"read through a link":  `[{read: {path: out/secret}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			outside := t.TempDir()
			if err := os.Symlink(outside, filepath.Join(d.workspace, "out")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(outside, "secret"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			o := d.run(t.Context(), t, test)
			if o.err == nil || !strings.Contains(o.err.Error(), "path escapes from parent") {
				t.Errorf("error %v", o.err)
			}
			if _, err := os.Stat(filepath.Join(outside, "x")); err == nil {
				t.Error("written outside of the workspace")
			}
		})
	}
}

func (d *desk) file(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.workspace, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestOutputAlsoAfterAFailure(t *testing.T) {
	o := newDesk(t).run(t.Context(), t, `[{say: so far}, {fail: enough}, {say: never}]`)
	if !errors.Is(o.err, script.ErrFailed) || o.output != "so far" {
		t.Errorf("error %v, output %q", o.err, o.output)
	}
}

// The child of the shell holds a FIFO open, whose other end sees when it is dead.
func TestEndOfContextKillsTheProcessGroup(t *testing.T) {
	d := newDesk(t)
	fifo := filepath.Join(d.workspace, "up")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- d.run(ctx, t, `[{run: {command: [sh, -c, "sleep 600 > up & wait"]}}]`).err
	}()
	up, err := os.Open(fifo) // returns when the shell's child has opened it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = up.Close() }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := up.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := up.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the shell's child is alive: %v", err)
	}
}

func TestEndOfContextEndsASleep(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if o := newDesk(t).run(ctx, t, `[{sleep: 10m}]`); !errors.Is(o.err, context.DeadlineExceeded) {
		t.Error(o.err)
	}
}

func TestInputIsChecked(t *testing.T) {
	good := input.Input{Script: json.RawMessage(`[{"sleep":"1ms"}]`), Workspace: t.TempDir()}
	if err := script.Run(t.Context(), good, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*input.Input){
		"no script":        func(in *input.Input) { in.Script = nil },
		"no workspace":     func(in *input.Input) { in.Workspace = filepath.Join(in.Workspace, "none") },
		"context a list":   func(in *input.Input) { in.Context = []byte(`[]`) },
		"context not JSON": func(in *input.Input) { in.Context = []byte(`{`) },
	} {
		bad := good
		spoil(&bad)
		if err := script.Run(t.Context(), bad, io.Discard, io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestFailedTranscriptIsAnError(t *testing.T) {
	full := errors.New("full")
	err := script.Run(t.Context(), input.Input{Script: json.RawMessage(`[{"sleep":"1ms"}]`), Workspace: t.TempDir()}, io.Discard, brokenWriter{full})
	if !errors.Is(err, full) {
		t.Error(err)
	}
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }
