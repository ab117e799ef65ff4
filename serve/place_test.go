package serve

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// swapped is a directory in which something takes another's place as soon as that has
// been looked at.
type swapped struct {
	tree
	name string // that is looked at
	swap func()
}

func (s *swapped) Lstat(name string) (fs.FileInfo, error) {
	info, err := s.tree.Lstat(name)
	if name == s.name {
		s.swap()
		s.swap = func() {}
	}
	return info, err
}

// instead puts what put puts into the place of a file or directory.
func instead(t *testing.T, path string, put func(path string) error) func() {
	return func() {
		if err := errors.Join(os.Rename(path, path+".before"), put(path)); err != nil {
			t.Error(err)
		}
	}
}

func link(to string) func(string) error {
	return func(path string) error { return os.Symlink(to, path) }
}

func pipe(path string) error { return syscall.Mkfifo(path, 0o600) }

// TestSwappedWhileOpened has a name become something else between the look at it and its
// opening.
func TestSwappedWhileOpened(t *testing.T) {
	t.Parallel()
	const secret, name = "S3CRET", "trials/buy/said"
	above := t.TempDir()
	lay(t, filepath.Join(above, "buy", "said"), secret)
	lay(t, filepath.Join(above, "run", name), secret)
	for what, test := range map[string]struct {
		looked, path string
		put          func(string) error
	}{
		"a directory on the way": {"trials/buy", "trials", link(above)},
		"the last directory":     {name, "trials/buy", link(filepath.Join(above, "buy"))},
		"up and away":            {name, "trials/buy", link("../../../../buy")},
		"the file":               {name, name, link(filepath.Join(above, "buy", "said"))},
		"another of the run's":   {name, name, link("../../run.json")},
		"a pipe":                 {name, name, pipe},
	} {
		dir := filepath.Join(above, strings.ReplaceAll(what, " ", "-"), "runs")
		lay(t, filepath.Join(dir, "a", "run.json"), secret)
		lay(t, filepath.Join(dir, "a", name), "fine")
		p, err := openPlace(dir, "a")
		if err != nil {
			t.Fatal(err)
		}
		p.root = &swapped{p.root, test.looked, instead(t, filepath.Join(dir, "a", test.path), test.put)}
		file, _, err := p.open(name)
		if err == nil {
			said, _ := io.ReadAll(file)
			t.Errorf("%s was opened, and said %q", what, said)
			_ = file.Close()
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	// So is the run's directory.
	dir := filepath.Join(above, "runs")
	lay(t, filepath.Join(dir, "a", name), "fine")
	all, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = all.Close() }()
	root, err := openIn(&swapped{all, "a", instead(t, filepath.Join(dir, "a"), link(filepath.Join(above, "run")))}, "a")
	if err == nil {
		t.Errorf("a run elsewhere was opened: %v", root.Close())
	}
}

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
	list := api[RunList](s, "runs")
	if list.Total != 2*len(names) {
		t.Errorf("%d runs", list.Total)
	}
	for _, run := range list.Runs {
		within := strings.TrimPrefix(strings.TrimPrefix(run.ID, "pipe"), "socket")
		if got := s.ask("/runs/"+run.ID+"/files/"+strings.ReplaceAll(within, "-", "/"), nil); got.StatusCode != 404 {
			t.Errorf("%s as a file: %s", run.ID, got.Status)
		}
		s.page("/api/v1/runs/" + run.ID + "/progress")
		for _, path := range []string{"/runs/" + run.ID + "/overview", "/runs/" + run.ID + "/trial/buy/1", "/api/v1/runs/" + run.ID + "/trials/buy/1"} {
			if got := s.ask(path, nil); strings.HasPrefix(within, "trials") && (got.StatusCode != 500 || !strings.Contains(got.body, "neither a file nor a directory")) {
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

// TestDeepAndWide has directories in each other, and beside each other, without number.
func TestDeepAndWide(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := makeRun(t, dir, "a")
	deep := strings.Repeat("d/", 400) + "file"
	lay(t, filepath.Join(at, deep), "S3CRET")
	s := open(t, dir)
	if got := s.ask("/runs/a/overview", nil); got.StatusCode != 500 || !strings.Contains(got.body, "directories lie in each other") {
		t.Errorf("a deep run: %s", got.Status)
	}
	if got := s.ask("/runs/a/files/"+deep, nil); got.StatusCode != 404 {
		t.Errorf("deep in it: %s", got.Status)
	}
	s.page("/runs/a/trial/buy/1")

	p, err := openPlace(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	for most, fits := range map[int]bool{1: false, 3: false, 4: true, 100: true} {
		lay(t, filepath.Join(at, "wide", "1"), "")
		lay(t, filepath.Join(at, "wide", "2", "3"), "")
		lay(t, filepath.Join(at, "wide", "4"), "")
		var visited []string
		err := p.walk("wide", most, func(name string, _ fs.DirEntry) error {
			visited = append(visited, name)
			return nil
		})
		if (err == nil) != fits || len(visited) > most || fits && strings.Join(visited, " ") != "wide/1 wide/2 wide/2/3 wide/4" {
			t.Errorf("of %d it visits %q, %v", most, visited, err)
		}
	}
}

// TestLookAtRunIsBounded reads large documents of a run to know what they hold: not without
// end, and not for somebody who has gone.
func TestLookAtRunIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := makeRun(t, dir, "a")
	for _, name := range []string{"1.json", "2.json", "3.json"} {
		lay(t, filepath.Join(at, "large", name), strings.Repeat(" ", jsontext.MaxValues+1))
	}
	p, err := openPlace(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if err := p.isPlainWithin(t.Context(), "large", 3*(jsontext.MaxValues+1)); err != nil {
		t.Error(err)
	}
	if err := p.isPlainWithin(t.Context(), "large", 3*jsontext.MaxValues); err == nil {
		t.Error("it reads on")
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	s := New(dir)
	run, err := s.shelf.find("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.pages.run(gone, run); !errors.Is(err, context.Canceled) {
		t.Errorf("it looks for nobody: %v", err)
	}
	if shown, err := s.pages.run(t.Context(), run); err != nil || shown.Trials() != 2 {
		t.Errorf("for the next one there are %d trials, %v", shown.Trials(), err)
	}
}
