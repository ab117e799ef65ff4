package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/sandbox"
)

// installing is a backend that can resolve packages and not build them.
type installing struct {
	*fakeBackend
	resolved *int
}

func (installing) Platform() string            { return "linux/amd64" }
func (installing) Close(context.Context) error { return nil }

func (b installing) Resolve(_ context.Context, i images.Image, _ *images.Lock) (images.Entry, error) {
	*b.resolved++
	return i.ReadManifest([]byte(`{"packages": {"node_modules/tool": {"version": "1.2.3", "integrity": "sha512-abcdefghijklmnopqrstuvwxyz", "bin": {"tool": "x.js"}}}}`), "")
}

func (installing) Prepare(context.Context, []*sandbox.Spec, func(string)) error {
	return errors.New("no compiler")
}

// TestRunAll_Packages holds that runs with several agents resolve their packages once, and say
// once why an image of theirs cannot be built.
func TestRunAll_Packages(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"eval.yaml": "name: n\ntasks: [task.yaml]\nconfig:\n  trials_per_task: 1\n  timeout_seconds: 1\n  executor: mock\n  mcp_servers: {s: {command: npx, args: [tool]}}\n",
		"task.yaml": "{id: t, inputs: {prompt: p}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	resolved := 0
	var failed, said []string
	RunBatch(t.Context(), Batch{
		Evals: []string{filepath.Join(dir, "eval.yaml")}, Variants: []Variant{{Model: "small"}, {Model: "large"}}, Dir: filepath.Join(dir, "runs"),
		Request: func() (Request, error) {
			return Request{Choices: Choices{Isolated: true}, Host: Host{
				Secrets: &secret.Set{}, Build: func() string { return "" }, Lookup: os.LookupEnv,
				Open: func(context.Context, Opening) (sandbox.Backend, error) {
					return installing{&fakeBackend{}, &resolved}, nil
				},
				Say: func(string) {}, Warn: func(error) {}, Notice: func([]*strictyaml.Error) {},
			}}, nil
		},
		Announce: func(s string) { said = append(said, s) },
		Ended:    func(_ *Job, _ Outcome, err error) error { return err },
		Compared: func(string, results.Comparison) error { return nil },
		Failed:   func(err error) { failed = append(failed, err.Error()) },
	})
	if resolved != 1 || len(failed) != 1 || !strings.Contains(failed[0], "no compiler") {
		t.Errorf("resolved %d times, failures %q", resolved, failed)
	}
	if diff := cmp.Diff([]string{"run 1 of 2: mock small", "run 2 of 2: mock large", "run 2 failed as run 1 did"}, said); diff != "" {
		t.Error(diff)
	}
}

// Who interrupts a run while its files are read, on a file system that does not answer, waits for nothing.
func TestLoadEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"eval.yaml": "name: e\nconfig: {executor: mock}\ntasks: [task.yaml]\n", "task.yaml": "{id: x, inputs: {prompt: p}}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	answer, ended := make(chan struct{}), make(chan struct{})
	_, err := Load(ctx, Request{
		Eval: filepath.Join(dir, "eval.yaml"), Start: dir,
		Host: Host{Lookup: func(string) (string, bool) { return "", false }, Notice: func([]*strictyaml.Error) {}, Secrets: &secret.Set{}},
		Select: func(tasks []eval.ResolvedTask) ([]eval.ResolvedTask, error) {
			defer close(ended)
			cancel(why)
			<-answer
			return nil, why
		},
	})
	if !errors.Is(err, why) {
		t.Error(err)
	}
	select {
	case <-ended:
		t.Error("Load waited")
	default:
	}
	close(answer)
	<-ended
}
