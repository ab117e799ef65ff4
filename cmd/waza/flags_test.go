package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/internal/files"
)

// testState is a command line in a process of its own.
func testState(args ...string) (s *state, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	s = &state{
		args: append([]string{"waza"}, args...), stdin: strings.NewReader(""), stdout: stdout, stderr: &screen{out: stderr},
		lookup: func(string) (string, bool) { return "", false }, version: "test", digest: files.DigestOnce(),
	}
	return s, stdout, stderr
}

// TestFlagsAnywhere checks which flags and arguments waza run gets, wherever flags stand: a flag that
// is taken for an argument must not run an eval without isolation.
func TestFlagsAnywhere(t *testing.T) {
	tests := []struct{ args, flags, want string }{
		{"", "", ""},
		{"--isolate eval.yaml", "isolate=true", "eval.yaml"},
		{"eval.yaml --isolate", "isolate=true", "eval.yaml"},
		{"--isolate eval.yaml -v", "isolate=true v=true", "eval.yaml"},
		{"eval.yaml -o out.json", "output=out.json", "eval.yaml"},
		{"eval.yaml --output=out.json --isolate", "isolate=true output=out.json", "eval.yaml"},
		{"eval.yaml -o --isolate", "output=--isolate", "eval.yaml"},
		{"--task a eval.yaml --task b,c", "task=[a b,c]", "eval.yaml"},
		{"eval.yaml --isolate=false", "isolate=false", "eval.yaml"},
		{"--isolate eval.yaml more", "isolate=true", "eval.yaml more"},
		{"--verbose eval.yaml", "v=true", "eval.yaml"},
		{"eval.yaml -isolate", "isolate=true", "eval.yaml"},
		{"- --isolate", "isolate=true", "-"},
		{"--isolate -- --odd.yaml -v", "isolate=true", "--odd.yaml -v"},
		{"eval.yaml -- -v", "", "eval.yaml -v"},
		{"-- --help", "", "--help"},
		{"-o --help eval.yaml", "output=--help", "eval.yaml"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			s, _, _ := testState()
			app := s.app()
			var flags []string
			var args []string
			app.Command("run").Action = func(_ context.Context, c *cli.Command) error {
				for _, f := range c.Flags {
					if name := f.Names()[0]; c.IsSet(name) {
						flags = append(flags, fmt.Sprint(name, "=", c.Value(name)))
					}
				}
				args = c.Args().Slice()
				return nil
			}
			if err := app.Run(t.Context(), append([]string{"waza", "run"}, strings.Fields(test.args)...)); err != nil {
				t.Fatal(err)
			}
			slices.Sort(flags)
			if got := strings.Join(flags, " "); got != test.flags {
				t.Errorf("flags are %q, want %q", got, test.flags)
			}
			if got := strings.Join(args, " "); got != test.want {
				t.Errorf("arguments are %q, want %q", got, test.want)
			}
		})
	}
}

// TestTimeout checks the values that --timeout takes.
func TestTimeout(t *testing.T) {
	for value, want := range map[string]time.Duration{"300": 5 * time.Minute, "5m": 5 * time.Minute, "2s": 2 * time.Second, "1h5m": 65 * time.Minute, "1.5s": 1500 * time.Millisecond} {
		var d duration
		if err := d.Set(value); err != nil || d.Duration != want {
			t.Errorf("%s is %v, %v; want %v", value, d.Duration, err, want)
		}
	}
	for _, value := range []string{"", "soon", "1.5", "-3", "1e3", "99999999999999"} {
		if err := new(duration).Set(value); err == nil {
			t.Errorf("%q is a time", value)
		}
	}
}

// TestOutputFiles checks that the files behind stdout and stderr are found, which image builds leave
// out, and no other outputs.
func TestOutputFiles(t *testing.T) {
	var files []*os.File
	for _, name := range []string{"out", "err"} {
		file, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		files = append(files, file)
	}
	found := outputFiles(newStdout(files[0]), &screen{out: files[1]}, &bytes.Buffer{})
	if len(found) != 2 || found[0].Name() != "out" || found[1].Name() != "err" {
		t.Errorf("found %v", found)
	}
}

// TestCompletion checks what a shell is told that completes a command line.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"run --isol": "--isolate:", "images": "prune:", "run --executor": "\nclaude\n", "gate --format": "default\njson\n", "run --on": "docker\nkubernetes\n",
		"grade": "latest\n", "compare latest": "latest\n", "show --format json": "latest\n", "gate latest --against": "latest\n",
		"run ../../examples/mcp-eval/eval.yaml --task": "\nreserve\n",
	} {
		s, stdout, stderr := testState(append(strings.Fields(line), "--generate-shell-completion")...)
		if code := s.main(t.Context()); code != exitOK || !strings.Contains(stdout.String(), want) {
			t.Errorf("%q: exit code %d, %s%s; want %s", line, code, stdout, stderr, want)
		}
	}
	s, stdout, _ := testState("completion", "bash")
	if code := s.main(t.Context()); code != exitOK || !strings.Contains(stdout.String(), "complete ") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	bare := stdout.String() + `
waza() { printf '%s\n' "$*" claude codex; }
COMP_WORDS=(waza run --executor cl) COMP_CWORD=3
__waza_bash_autocomplete
echo "${COMPREPLY[@]}"
`
	out, err := exec.CommandContext(t.Context(), "bash", "--norc", "-c", bare).CombinedOutput()
	if err != nil || string(out) != "claude\n" {
		t.Errorf("in a shell without bash-completion: %q, %v", out, err)
	}
}

// What is wrong with the command line is exit code 2 and one sentence, wherever
// in the line it stands.
func TestUsageErrors(t *testing.T) {
	tests := []struct{ args, want string }{
		{"run", "there is no eval here: no eval.yaml, and none in evals or skills; name one"},
		{"run a.yaml b.yaml --isolate", `run takes one eval, directory or skill; remove "b.yaml"; see waza run --help`},
		{"run --nonsense a.yaml --isolate", "-nonsense"},
		{"run a.yaml --isolate --nonsense", "-nonsense"},
		{"run a.yaml --isolate -x", "-x"},
		{"run a.yaml -- --isolate", "run takes one eval, directory or skill"},
		{"run a.yaml --isolate --trials 0", "--trials must be from 1 to 10000"},
		{"run a.yaml --isolate --trials -1", "--trials must be from 1 to 10000"},
		{"run a.yaml --isolate --infra-retries -1", "--infra-retries must be 0 or more"},
		{"run a.yaml --isolate --workers=0", "--workers must be auto or a number from 1 to 256"},
		{"run a.yaml --isolate --trials many", `"many"`},
		{"run a.yaml --isolate --timeout 0s", "--timeout must be more than 0"},
		{"run a.yaml --isolate --timeout soon", `"soon"`},
		{"run a.yaml --isolate --format xml", `--format must be default, json or github-comment, not "xml"`},
		{"run a.yaml --isolate -o", "flag -o needs a value"},
		{"run missing.yaml --isolate", "missing.yaml"},
		{"grade", "grade takes one run directory"},
		{"grade a b", `grade takes one run directory; remove "b"`},
		{"grade missing", "missing is not a run directory"},
		{"grade --format xml missing", "--format"},
		{"report", "report takes run directories; nothing was given; see waza report --help"},
		{"report missing", "missing is not a run directory"},
		{"report a --format csv", `--format must be default, json or github-comment, not "csv"`},
		{"report a b", "a report of several runs needs a file: name it with --output"},
		{"report a b --format github-comment", "use waza compare --format github-comment for several"},
		{"report a b --format json", "use waza compare --format json for several"},
		{"doctor --format github-comment", `--format must be default or json, not "github-comment"`},
		{"gc everything", `gc takes no arguments; remove "everything"`},
		{"gc --all", "-all"},
		{"version 2", "version takes no arguments"},
		{"schema", "schema takes eval, task, results or side"},
		{"schema run", `schema takes eval, task, results or side, not "run"`}, {"compare a", `compare takes two runs or more; only "a" was given`},
		{"rnu a.yaml", `unknown command "rnu"; did you mean run?`}, {"run --worker 2", "unknown flag --worker; did you mean --workers?"},
		{"--nonsense", "-nonsense"},
		{"new taks x", `unknown command new "taks"; did you mean "task"?`}, {"new it", "known here: grader, server, task"}, {"images lst", `unknown command images "lst"; did you mean "list"?`},
		{"run --trials many", `invalid value "many" for --trials: must be a number; see waza run --help`},
		{"run --isolate --no-isolate", "--isolate and --no-isolate contradict each other; give one of them"},
		{"run --isolate=maybe", `invalid value "maybe" for --isolate: must be true or false`},
		{"inspect --for soon", `invalid value "soon" for --for: must be a time, such as 10s`},
		{"run --context-dir nowhere", "--context-dir: there is no directory nowhere"}, {"lock --context-dir flags_test.go x.yaml", "there is no directory flags_test.go"},
		{"gate a b", "gate takes one run, and with --against the run to compare it with"}, {"gate a", "say which one a must not be worse than, as in waza gate a --against RUN"},
		{"inspect --isolate flags_test.go", "flags_test.go is not a client's configuration file with servers, which is JSON; to name a command, write it after --"},
		{"run --session-dir flags_test.go x.yaml", "--session-dir: flags_test.go is not a directory"}, {"run --output-dir flags_test.go/x x.yaml", "--output-dir: flags_test.go/x is not a directory"},
		{"run testdata", "directory testdata has no eval"},
		{"run --output testdata x.yaml", "--output: write testdata: is a directory"}, {"run --output nowhere/x.json x.yaml", "--output: there is no directory nowhere"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) { // not in parallel: the library's help flag is one for all
			s, stdout, stderr := testState(strings.Fields(test.args)...)
			if code := s.main(context.Background()); code != exitUsage {
				t.Errorf("exit code %d, want %d", code, exitUsage)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout: %s", stdout)
			}
			if said := stderr.String(); !strings.HasPrefix(said, "waza: ") || !strings.Contains(said, test.want) || strings.Count(said, "\n") != 1 {
				t.Errorf("stderr %q, want one line with %q", said, test.want)
			}
		})
	}
}
