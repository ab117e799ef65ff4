package serve

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func pipe(path string) error { return syscall.Mkfifo(path, 0o600) }

// TestWhatIsNoFile has pipes and sockets in the places of files: nobody waits for who
// should write to them.
func TestWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := []string{"run.json", "results.json", "progress.jsonl", "trials/buy/1/trial.json", "trials/buy/1/frames.jsonl", "trials/buy/1/agent.stdout"}
	for kind, put := range map[string]func(string) error{"pipe": pipe, "socket": socket} {
		for _, name := range names {
			id := kind + strings.ReplaceAll(name, "/", "-")
			at := filepath.Join(makeRun(t, dir, id), name)
			if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err := put(at); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := open(t, dir)
	list := s.list()
	if len(list) != 2*len(names) {
		t.Errorf("%d runs", len(list))
	}
	for _, run := range list {
		within := strings.TrimPrefix(strings.TrimPrefix(run.ID, "pipe"), "socket")
		if got := s.ask("/runs/"+run.ID+"/files/"+strings.ReplaceAll(within, "-", "/"), nil); got.StatusCode != 404 {
			t.Errorf("%s as a file: %s", run.ID, got.Status)
		}
		s.runs.progress(run)
		for _, path := range []string{"/runs/" + run.ID + "/overview", "/runs/" + run.ID + "/trial/buy/1"} {
			if got := s.ask(path, nil); strings.HasPrefix(within, "trials") && (got.StatusCode != 500 || !strings.Contains(got.body, "a run directory holds regular files only")) {
				t.Errorf("%s: %s", path, got.Status)
			}
		}
		if got := s.ask("/runs/"+run.ID+"/trial/sell/1", nil); got.StatusCode != 200 {
			t.Errorf("%s, another trial: %s", run.ID, got.Status)
		}
	}
}

// socket leaves a socket that nobody listens on.
func socket(path string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0) }

// TestDeep has directories in each other: what lies there is a file of the run as any other.
func TestDeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	deep := strings.Repeat("d/", 400) + "file"
	lay(t, filepath.Join(makeRun(t, dir, "a"), deep), "deep")
	s := open(t, dir)
	s.page("/runs/a/overview")
	if got := s.page("/runs/a/files/" + deep); got != "deep" {
		t.Errorf("deep in it: %q", got)
	}
	if got := s.ask("/runs/a/files/"+strings.Repeat("d/", 4000), nil); got.StatusCode != 404 {
		t.Errorf("deeper than anything: %s", got.Status)
	}
}
