package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

func TestPermute(t *testing.T) {
	tests := []struct {
		name string
		args string
		want string
	}{
		{"nothing", "", ""},
		{"flags first", "run --isolate eval.yaml", "run --isolate -- eval.yaml"},
		{"flags last", "run eval.yaml --isolate", "run --isolate -- eval.yaml"},
		{"both", "run --isolate eval.yaml -v", "run --isolate -v -- eval.yaml"},
		{"value", "run eval.yaml -o out.json", "run -o out.json -- eval.yaml"},
		{"long value", "run eval.yaml --output out.json --isolate", "run --output out.json --isolate -- eval.yaml"},
		{"value after =", "run eval.yaml --output=out.json", "run --output=out.json -- eval.yaml"},
		{"value that looks like a flag", "run eval.yaml -o --isolate", "run -o --isolate -- eval.yaml"},
		{"negative number", "run eval.yaml --trials -1", "run --trials -1 -- eval.yaml"},
		{"flag given again", "run --task a eval.yaml --task b", "run --task a --task b -- eval.yaml"},
		{"bool with a value", "run eval.yaml --isolate=false", "run --isolate=false -- eval.yaml"},
		{"bool takes no value", "run --isolate eval.yaml more", "run --isolate -- eval.yaml more"},
		{"alias of a bool", "run --verbose eval.yaml", "run --verbose -- eval.yaml"},
		{"one dash", "run eval.yaml -isolate", "run -isolate -- eval.yaml"},
		{"unknown stays a flag", "run eval.yaml --isolat", "run --isolat -- eval.yaml"},
		{"stdin is an argument", "run - --isolate", "run --isolate -- -"},
		{"all after -- are arguments", "run --isolate -- --odd.yaml -v", "run --isolate -- --odd.yaml -v"},
		{"-- after an argument", "run eval.yaml -- -v", "run -- eval.yaml -v"},
		{"help drops the rest", "run eval.yaml --isolate --help", "run --help"},
		{"short help", "run -h eval.yaml", "run -h"},
		{"help after --", "run -- --help", "run -- --help"},
		{"help as a value", "run -o --help eval.yaml", "run -o --help -- eval.yaml"},
		{"flags of waza itself", "--help", "--help"},
		{"unknown command", "rnu eval.yaml --isolate", "rnu eval.yaml --isolate"},
		{"other commands", "grade RUN --format json", "grade --format json -- RUN"},
		{"no arguments", "gc", "gc --"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"waza"}, strings.Fields(test.args)...)
			s, _, _ := testState()
			got, err := permute(s.app(), args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append([]string{"waza"}, strings.Fields(test.want)...), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPermuteMissingValue(t *testing.T) {
	s, _, _ := testState()
	for _, flag := range []string{"-o", "--output", "--task", "--timeout"} {
		if args, err := permute(s.app(), []string{"waza", "run", "eval.yaml", flag}); err == nil {
			t.Errorf("%s without a value: %q", flag, args)
		}
	}
}

func FuzzPermute(f *testing.F) {
	for _, seed := range []string{"run eval.yaml --isolate", "run -- -v", "grade -o x RUN", "run --task", "", "--", "- -- -"} {
		f.Add(seed)
	}
	s, _, _ := testState()
	app := s.app()
	f.Fuzz(func(t *testing.T, line string) {
		args := append([]string{"waza"}, strings.Fields(line)...)
		got, err := permute(app, args)
		if err != nil || slices.Contains(got, "--help") || slices.Contains(got, "-h") {
			return
		}
		count := func(list []string) map[string]int {
			n := map[string]int{}
			for _, arg := range list {
				if arg != "--" {
					n[arg]++
				}
			}
			return n
		}
		if diff := cmp.Diff(count(args), count(got)); diff != "" {
			t.Errorf("words were lost or made up (-want +got):\n%s", diff)
		}
	})
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
		{"report a --format json", `--format must be default or github-comment, not "json"`},
		{"report a b", "a report of several runs needs a file: name it with --output"},
		{"report a b --format github-comment", "use waza compare --format github-comment for several"},
		{"doctor --format github-comment", `--format must be default or json, not "github-comment"`},
		{"gc everything", `gc takes no arguments; remove "everything"`},
		{"gc --all", "-all"},
		{"version 2", "version takes no arguments"},
		{"schema", "schema takes eval, task or results"},
		{"schema run", `schema takes eval, task or results, not "run"`}, {"compare a", `compare takes two runs or more; only "a" was given`},
		{"rnu a.yaml", `unknown command "rnu"; did you mean run?`}, {"run --worker 2", "unknown flag --worker; did you mean --workers?"},
		{"--nonsense", "-nonsense"},
		{"new taks x", `unknown command new "taks"; did you mean "task"?`}, {"new it", "known here: grader, server, task"}, {"images lst", `unknown command images "lst"; did you mean "list"?`},
		{"run --trials many", `invalid value "many" for --trials: must be a number; see waza run --help`},
		{"run --isolate=maybe", `invalid boolean value "maybe" for --isolate: must be true or false`},
		{"inspect --for soon", `invalid value "soon" for --for: must be a time, such as 10s`},
		{"run --context-dir nowhere", "--context-dir: there is no directory nowhere"}, {"lock --context-dir flags_test.go x.yaml", "there is no directory flags_test.go"},
		{"gate a", "gate takes one run, and with --against the run to compare it with"},
		{"inspect --isolate flags_test.go", "flags_test.go is not a client's configuration file with servers, which is JSON; to name a command, write it after --"},
		{"run --session-dir flags_test.go x.yaml", "--session-dir: flags_test.go is not a directory"}, {"run --output-dir flags_test.go/x x.yaml", "--output-dir: flags_test.go/x is not a directory"},
		{"run testdata", "directory testdata has no eval"},
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
