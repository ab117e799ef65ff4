package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/offline"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/kube"
)

// TestOffline holds that a command with --offline names what all its runs lack before the first begins, and
// with nothing missing it begins.
func TestOffline(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, server := range map[string]string{"a": "{image: \"one:${TAG:-1}\"}", "b": "{command: npx, args: [tool]}", "c": "{image: \"here:1\"}"} {
		content := "name: " + name + "\ntasks: [../task.yaml]\nconfig:\n  trials_per_task: 1\n  timeout_seconds: 1\n  executor: mock\n  mcp_servers: {s: " + server + "}\n"
		if err := errors.Join(os.Mkdir(name, 0o755), os.WriteFile(filepath.Join(name, "eval.yaml"), []byte(content), 0o644), os.WriteFile("task.yaml", []byte("{id: t, inputs: {prompt: p}}\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	begin := errors.New("it begins")
	run := func(choices Choices, evals ...string) (said []string, code int) {
		choices.Isolated = true
		RunBatch(offline.Context(t.Context()), Batch{
			Evals: evals, Variants: []Variant{{Model: "small"}, {Model: "large"}},
			Request: func() (Request, error) {
				return Request{Choices: choices, Host: Host{
					Secrets: &secret.Set{}, Build: func() string { return "" }, Lookup: func(string) (string, bool) { return "", false },
					Open: func(context.Context, Opening) (sandbox.Backend, error) { return nil, begin },
					Absent: func(_ context.Context, refs []string) ([]string, error) {
						return slices.DeleteFunc(refs, func(ref string) bool { return ref == "here:1" }), nil
					},
					Say: func(string) {}, Warn: func(error) {}, Notice: func([]*strictyaml.Error) {},
				}}, nil
			},
			Announce: func(string) {},
			Ended:    func(_ *Job, _ Outcome, err error) error { return err },
			Compared: func(string, results.Comparison) error { return nil },
			Failed: func(err error) {
				if errors.As(err, new(Mistake)) {
					code = 2
				}
				said = append(said, err.Error())
			},
		})
		return said, code
	}
	said, code := run(Choices{}, "a/eval.yaml", "b/eval.yaml", "c/eval.yaml")
	want := []string{strings.Join([]string{
		"--offline fetches nothing, and this is missing:",
		"image one:1: waza images build a/eval.yaml",
		`the versions of npm:tool for server "s", which are not in waza.lock: waza images build b/eval.yaml`,
	}, "\n")}
	if diff := cmp.Diff(want, said); diff != "" || code != 2 {
		t.Errorf("code %d: %s", code, diff)
	}
	if said, _ := run(Choices{}, "c/eval.yaml"); !slices.Equal(said, []string{begin.Error()}) {
		t.Errorf("with all there: %q", said)
	}
	if said, code := run(Choices{Pull: "always"}, "c/eval.yaml"); code != 2 || !strings.Contains(said[0], "whose pull policy is always") {
		t.Errorf("with the policy always: %d %q", code, said)
	}
	h := Host{}
	if err := h.checkOffline(offline.Context(t.Context()), "", []*plan.Trial{{Kubernetes: &kube.Settings{}}}, nil); !errors.As(err, new(Mistake)) {
		t.Errorf("on a cluster: %v", err)
	}
}
