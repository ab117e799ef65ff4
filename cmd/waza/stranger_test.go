package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/runner"
)

// strangers is a run directory as a stranger would hand it over.
func strangers(t *testing.T, does func(*runtest.Trial)) (dir string, trial evidence.Dir) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	made := runtest.New(t, dir, "shop")
	made.Trial("buy", func(trial *runtest.Trial) {
		if does != nil {
			does(trial)
		}
	})
	made.End()
	return dir, runner.TrialDir(dir, "buy", 1)
}

// mainWithin runs a command that must not wait for anybody.
func mainWithin(t *testing.T, s *state) int {
	t.Helper()
	code := make(chan int, 1)
	go func() { code <- s.main(t.Context()) }()
	select {
	case c := <-code:
		return c
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s hangs", strings.Join(s.args, " "))
		return 0
	}
}

// No command follows what a stranger put into a run directory, or waits for it.
func TestAStrangersRunHoldsFilesOnly(t *testing.T) {
	const private = "a private text for nobody else"
	for name, plant := range map[string]func(t *testing.T, dir, outside string, trial evidence.Dir) (said string){
		"a link to a file": func(t *testing.T, _, outside string, trial evidence.Dir) string {
			at := filepath.Join(string(trial), evidence.StdoutFile)
			if err := errors.Join(remove(at), os.Symlink(filepath.Join(outside, "private"), at)); err != nil {
				t.Fatal(err)
			}
			return at + " is a link: a run directory holds regular files only"
		},
		"a pipe": func(t *testing.T, _, _ string, trial evidence.Dir) string {
			at := filepath.Join(string(trial), evidence.EventsFile)
			if err := errors.Join(remove(at), syscall.Mkfifo(at, 0o600)); err != nil {
				t.Fatal(err)
			}
			return at + " is a named pipe: a run directory holds regular files only"
		},
		"a pipe as the record": func(t *testing.T, dir, _ string, _ evidence.Dir) string {
			at := filepath.Join(dir, runner.RunFile)
			if err := errors.Join(remove(at), syscall.Mkfifo(at, 0o600)); err != nil {
				t.Fatal(err)
			}
			return at + " is a named pipe: a run directory holds regular files only"
		},
		"a link to a directory": func(t *testing.T, dir, outside string, _ evidence.Dir) string {
			at := filepath.Join(dir, "trials")
			if err := errors.Join(os.Rename(at, filepath.Join(outside, "trials")), os.Symlink(filepath.Join(outside, "trials"), at)); err != nil {
				t.Fatal(err)
			}
			return at + " is a link: a run directory holds regular files only"
		},
		"a file that leads out": func(t *testing.T, dir, _ string, _ evidence.Dir) string {
			edit(t, dir, runner.RunFile, func(run map[string]any) { run["files"] = map[string]any{"../outside/pipe": "0"} })
			return filepath.Join(dir, runner.RunFile) + ` names the file "../outside/pipe", which is not in it: a run directory holds regular files only`
		},
		"a task that leads out": func(t *testing.T, dir, _ string, _ evidence.Dir) string {
			edit(t, dir, runner.RunFile, func(run map[string]any) { run["tasks"] = []any{map[string]any{"id": "../../outside"}} })
			return filepath.Join(dir, runner.RunFile) + ` names the task "../../outside", which cannot have a directory: a run directory holds regular files only`
		},
	} {
		for _, args := range [][]string{{"grade"}, {"show"}, {"report"}, {"report", "-o", "PAGE"}, {"compare", "OTHER"}, {"run", "--resume"}} {
			t.Run(name+"/"+strings.Join(args, " "), func(t *testing.T) {
				dir, trial := strangers(t, nil)
				outside, other := filepath.Join(filepath.Dir(dir), "outside"), ""
				page := filepath.Join(outside, "page.html")
				err := errors.Join(os.Mkdir(outside, 0o700), os.WriteFile(filepath.Join(outside, "private"), []byte(private), 0o600), syscall.Mkfifo(filepath.Join(outside, "pipe"), 0o600))
				if err != nil {
					t.Fatal(err)
				}
				said := plant(t, dir, outside, trial)
				if args[0] == "compare" {
					other, _ = strangers(t, nil)
				}
				line := strings.Fields(strings.NewReplacer("PAGE", page, "OTHER", other).Replace(strings.Join(args, " ")))
				s, stdout, stderr := testState(append(line, dir)...)
				code := mainWithin(t, s)
				if got := strings.TrimPrefix(strings.TrimPrefix(stderr.String(), "waza: "), "--resume: "); code != exitUsage || got != said+"\n" {
					t.Errorf("exit %d, it says %q, want %q", code, stderr, said)
				}
				for _, file := range []string{page, filepath.Join(dir, runner.ReportFile)} {
					if text, err := os.ReadFile(file); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s is written; it has the private text: %t", file, strings.Contains(string(text), private))
					}
				}
				if strings.Contains(stdout.String(), private) {
					t.Error("it prints the private text")
				}
			})
		}
	}
}

// A server's name leads to no file elsewhere.
func TestAStrangersServerLeadsNowhere(t *testing.T) {
	for _, args := range [][]string{{"grade"}, {"report"}} {
		dir, trial := strangers(t, nil)
		if err := syscall.Mkfifo(filepath.Join(filepath.Dir(dir), "x.stderr"), 0o600); err != nil {
			t.Fatal(err)
		}
		edit(t, string(trial), evidence.TrialFile, func(trial map[string]any) {
			trial["servers"] = []any{map[string]any{"name": "../../../../../x"}}
		})
		s, _, stderr := testState(append(args, dir)...)
		if code := mainWithin(t, s); code != exitUsage || !strings.Contains(stderr.String(), "a run directory holds regular files only") {
			t.Errorf("%s: exit %d, it says %s", args, code, stderr)
		}
	}
}

func remove(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// edit changes a document.
func edit(t *testing.T, dir, name string, change func(map[string]any)) {
	t.Helper()
	file := filepath.Join(dir, name)
	data, err := os.ReadFile(file)
	var doc map[string]any
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err == nil {
		change(doc)
		data, err = json.Marshal(doc)
	}
	if err = errors.Join(err, os.WriteFile(file, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}
