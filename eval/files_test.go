package eval_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/eval"
)

// TestSources checks that a directory means its files, none of which may lead out of it.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"data/a", "data/sub/b", "data/.git/config", "other"} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e := &eval.Eval{Path: filepath.Join(dir, "eval.yaml")}
	found, err := eval.Sources(e, map[string]string{"/srv": "data", "/srv/a": "other"})
	if got := slices.Sorted(maps.Keys(found)); err != nil || !slices.Equal(got, []string{"/srv/a", "/srv/sub/b"}) {
		t.Errorf("found %v, %v", got, err)
	}
	if at := found["/srv/a"].Path; at != "other" {
		t.Errorf("the file that is named itself is %s", at)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "data/link")); err != nil {
		t.Fatal(err)
	}
	if _, err := eval.Sources(e, map[string]string{"/srv": "data"}); err == nil || !strings.Contains(err.Error(), "has a file link that cannot be read") {
		t.Errorf("a link that leads out: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := eval.Sources(e, map[string]string{"/srv": "empty"}); err == nil || !strings.Contains(err.Error(), "is a directory without files") {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestSources_Start checks that a directory is found like a file where waza was started, but for hidden ones.
func TestSources_Start(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"data/a": "1", ".hidden/a": "1", "evals/eval.yaml": "name: e\nconfig: {executor: mock}\ntasks: [t.yaml]\n", "evals/t.yaml": "id: t\ninputs: {prompt: x}\n",
	} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	e, _, err := eval.Load(filepath.Join(dir, "evals/eval.yaml"), eval.Options{Start: dir})
	if err != nil {
		t.Fatal(err)
	}
	found, err := eval.Sources(e, map[string]string{"/srv": "data", "/x": "data/a"})
	if got := slices.Sorted(maps.Keys(found)); err != nil || !slices.Equal(got, []string{"/srv/a", "/x"}) {
		t.Errorf("found %v, %v", got, err)
	}
	if _, err := eval.Sources(e, map[string]string{"/srv": ".hidden"}); err == nil {
		t.Error("a hidden directory is found")
	}
}
