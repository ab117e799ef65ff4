package runner

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// A secret in two pieces is found in each text that waza makes of them, and a check of that text is an error.
func TestSplitSecret(t *testing.T) {
	const (
		first, second = "hunter2-an", "d-more"
		secret        = first + second
		part          = `{"say":"part","text":"`
		whole         = `{"say":"all","text":`
	)
	for _, test := range []struct {
		name           string
		said           []string // by write to stdout
		turns          bool     // each write is a turn
		events         bool     // lines are events
		earlier, final string
	}{
		{"two writes", []string{"my key is " + first, second + "."}, false, false, "", "my key is ****************."},
		{"two turns", []string{first, second}, true, false, "**********", "******"},
		{"two deltas of a message", []string{part + first + "\"}\n", part + second + "\"}\n"}, false, true, "", "****************"},
		{"two blocks of a message", []string{whole + `[{"type":"text","text":"` + first + `"},{"type":"text","text":"` + second + "\"}]}\n"}, false, true, "", "*****************"},
		{"two messages", []string{whole + `"` + first + "\"}\n", whole + `"` + second + "\"}\n"}, false, true, "", "*****************"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, trial, o := testBackend(), testTrial(1), options(t)
				o.Host.Secrets.Add(secret, "stock/TOKEN")
				trial.Servers = nil
				if test.turns {
					trial.Agent.FollowUps, trial.Agent.Continue = []string{"Go on."}, []string{"buyer"}
				}
				if test.events {
					trial.Agent.Output = plan.OutputTranscript
					trial.Agent.Events = &transcript.Source{From: "stdout", Format: transcript.FormatJSONL, Events: []transcript.Rule{
						{When: map[string]any{"say": "part"}, Type: transcript.Message, Content: "text", Joined: true},
						{When: map[string]any{"say": "all"}, Type: transcript.Message, Content: "text"},
					}}
				}
				left := test.said
				b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
					for len(left) > 0 {
						io.WriteString(p.out, left[0])
						if left = left[1:]; test.turns {
							break
						}
					}
					return 0
				}}
				r := runOne(t, b, trial, o)
				if r.Trial.EarlierOutput != test.earlier || r.Trial.FinalOutput != test.final {
					t.Errorf("the output is %q and %q", r.Trial.EarlierOutput, r.Trial.FinalOutput)
				}
				if len(r.Verdicts.Verdicts) != 1 || !strings.Contains(r.Verdicts.Verdicts[0].Feedback, "stock/TOKEN") {
					t.Errorf("verdicts %+v", r.Verdicts.Verdicts)
				}
				err := filepath.WalkDir(string(r.Dir), func(path string, entry os.DirEntry, err error) error {
					if err == nil && !entry.IsDir() && strings.Contains(readAll(t, evidence.Dir(filepath.Dir(path)), filepath.Base(path)), secret) {
						t.Errorf("it is in %s", path)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// What is kept of an output ends with no piece of a secret.
func TestSecretAtTheEndOfAnOutput(t *testing.T) {
	for _, name := range []string{evidence.StdoutFile, evidence.StderrFile} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, trial, o := testBackend(), testTrial(1), options(t)
				o.Host.Secrets.Add("hunter2-and-more", "stock/TOKEN")
				trial.Servers = nil
				trial.Agent.MaxOutput = 1000
				b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
					to := p.out
					if name == evidence.StderrFile {
						to = p.err
					}
					io.WriteString(to, strings.Repeat("x", 993)+"hunter2-and")
					io.WriteString(to, "-more, and so on")
					return 0
				}}
				r := runOne(t, b, trial, o)
				want := strings.Repeat("x", 993) + "*******"
				if got := readAll(t, r.Dir, name); got != want || r.Trial.Class != evidence.ClassAgentError {
					t.Errorf("%s, ends with %q", r.Trial.Class, got[max(0, len(got)-20):])
				}
				if name == evidence.StdoutFile && r.Trial.FinalOutput != want {
					t.Errorf("an output of %d bytes", len(r.Trial.FinalOutput))
				}
			})
		})
	}
}
