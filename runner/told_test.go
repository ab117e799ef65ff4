package runner

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// tellsIn is a trial whose agent prints or leaves lines of its own kind.
func tellsIn(from string) *plan.Trial {
	trial := testTrial(1)
	trial.Graders = nil
	trial.Agent.Disk = 128 << 20 // for the one that tells too much
	trial.Agent.Events = &transcript.Source{From: from, Format: transcript.FormatJSONL, Events: []transcript.Rule{
		{When: map[string]any{"did": "start"}, Type: transcript.ToolStart, ID: "n", Name: "tool", Arguments: "with"},
		{When: map[string]any{"did": "end"}, Type: transcript.ToolEnd, ID: "n", Result: "got", Error: "bad"},
	}}
	return trial
}

func TestAgentTells(t *testing.T) {
	const (
		start = `{"did":"start","n":1,"tool":"mcp__stock__price","with":"{\"of\":\"bolt\"}"}` + "\n"
		event = `{"type":"tool.execution_start","tool_call_id":"1","tool_name":"mcp__stock__price","arguments":{"of":"bolt"}}` + "\n"
	)
	for _, test := range []struct {
		name   string
		from   string
		said   string // where from says
		kept   string
		events []string
		gap    string
	}{
		{"on stdout", "stdout", start, event, nil, ""},
		{"on stderr", "stderr", start, event, nil, ""},
		{"in a file", "log/events.jsonl", start, event, nil, ""},
		{"with other output", "stdout", "Hello.\n" + start, event, []string{"transcript_noise transcript in stdout: 1 line without a JSON object"}, ""},
		{"torn", "stdout", start + `{"did":"st`, event, []string{"gap transcript in stdout: the last line is cut off"}, ""},
		{"with a line that is no JSON", "stdout", start + "{oops}\n", event, []string{"gap transcript in stdout: line 2: starts like a JSON object but is not one"}, "transcript lines: 1 line cannot be read, the first: line 2"},
		{"nothing that fits", "stdout", `{"type":"assistant"}` + "\n", "", nil, "transcript: no line is an event"},
		{"nothing", "stderr", "", "", nil, "transcript: no line is an event"},
		{"no file", "log/none.jsonl", "", "", nil, "transcript: no regular file of that name"},
		{"more than may be", "log/events.jsonl", strings.Repeat(`{"did":"end","n":1,"got":"`+strings.Repeat("x", 1<<20)+"\"}\n", 65), "*", nil, "transcript: is larger than its limit allows"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if len(test.said) > 64<<20 {
				heavytest.Mark(t)
			}
			synctest.Test(t, func(t *testing.T) {
				b := testBackend()
				b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
					switch {
					case test.from == "stdout":
						io.WriteString(p.out, test.said)
					case test.from == "stderr":
						io.WriteString(p.err, test.said)
					case test.said != "":
						p.container.write(sandbox.WorkspaceDir+"/"+test.from, fakeFile{content: test.said})
					}
					return 0
				}}
				r := runOne(t, b, tellsIn(test.from), options(t))
				wantGap(t, r, test.gap)
				got, _ := os.ReadFile(filepath.Join(string(r.Dir), evidence.TranscriptFile))
				if string(got) != test.kept && test.kept != "*" || len(got) > 64<<20 {
					t.Errorf("kept %d bytes %.300q, want %q", len(got), got, test.kept)
				}
				all, err := r.Dir.Events()
				var reported []string
				for _, e := range all {
					if strings.Contains(e.Message, "transcript") {
						reported = append(reported, e.Kind+" "+e.Message)
					}
				}
				if diff := cmp.Diff(test.events, reported); diff != "" || err != nil {
					t.Errorf("events %s, %v", diff, err)
				}
			})
		})
	}
}

// The final output is taken from the messages of the transcript, not from other text on
// stdout, and is empty if there are none.
func TestFinalOutputInTheTranscript(t *testing.T) {
	const said = `{"did":"say","text":"Let me see."}` + "\n" + `{"did":"start","n":1,"tool":"look"}` + "\n"
	for _, test := range []struct {
		name, stdout, output string
		class                evidence.Class
		reason, gap          string
	}{
		{"all of them", said + `{"did":"say","text":"4.20"}` + "\n", "Let me see.\n4.20", evidence.ClassPass, "", ""},
		{"nothing behind a tool", said, "Let me see.", evidence.ClassFail, "failed: text", ""},
		{"none", `{"did":"start","n":1,"tool":"4.20"}` + "\n", "", evidence.ClassAgentError, "the agent left no final output: its transcript has no message", "final output: its transcript has no message"},
		{"no transcript", "4.20\n", "", evidence.ClassAgentError, "the agent left no final output", "transcript: no line is an event"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, trial := testBackend(), tellsIn("stdout")
				trial.Agent.Output = "transcript"
				trial.Agent.Events.Events = append(trial.Agent.Events.Events, transcript.Rule{When: map[string]any{"did": "say"}, Type: transcript.Message, Content: "text"})
				trial.Graders = testTrial(1).Graders
				b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int { io.WriteString(p.out, test.stdout); return 0 }}
				r := runOne(t, b, trial, options(t))
				wantOutcome(t, r, test.class, test.reason)
				wantGap(t, r, test.gap)
				if r.Trial.FinalOutput != test.output {
					t.Errorf("final output %q", r.Trial.FinalOutput)
				}
			})
		})
	}
}

// A link in the transcript's place is not followed, and no secret that the agent knows
// is written, however it is spelled.
func TestAgentTellsSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := testBackend(), options(t)
		o.Host.Secrets = testSet()
		b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
			line, _ := json.Marshal(map[string]string{"did": "start", "n": "1", "tool": "say", "with": `{"x":"\u0068unter2-and-more"}`})
			p.container.write(sandbox.WorkspaceDir+"/events.jsonl", fakeFile{content: string(line) + "\n"})
			return 0
		}}
		r := runOne(t, b, tellsIn("events.jsonl"), o)
		got, err := os.ReadFile(filepath.Join(string(r.Dir), evidence.TranscriptFile))
		want := `{"type":"tool.execution_start","tool_call_id":"1","tool_name":"say","arguments":{"x":"**********************"}}` + "\n"
		if string(got) != want || err != nil {
			t.Errorf("%s, %v", got, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := testBackend()
		b.programs[sandbox.Agent] = leaves(sandbox.WorkspaceDir+"/events.jsonl", fakeFile{link: "/etc/passwd"})
		wantGap(t, runOne(t, b, tellsIn("events.jsonl"), options(t)), "transcript: no regular file")
	})
}

// A call that the agent only claims is not counted as one: graders see the recorded traffic,
// and the narration names the difference.
func TestClaimsAreNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, trial := testBackend(), tellsIn("stdout")
		trial.Graders = []evidence.GraderSpec{
			grader("behavior", `{"max_mcp_calls":1,"required_mcp_servers":["stock"]}`),
			{Name: "not claimed", Type: "tool_constraint", Weight: 1, Config: json.RawMessage(`{"reject_tools":[{"tool":"refund"}]}`)},
		}
		b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
			for i := range 3 {
				fmt.Fprintf(p.out, `{"did":"start","n":%d,"tool":"mcp__stock__refund","with":{}}`+"\n", i)
				fmt.Fprintf(p.out, `{"did":"end","n":%d,"got":"refunded"}`+"\n", i)
			}
			if _, err := callStock(p.container, "stock"); err != nil {
				return 1
			}
			return 0
		}}
		r := runOne(t, b, trial, options(t))
		wantOutcome(t, r, evidence.ClassPass, "")
		n, err := r.Dir.Narration()
		if err != nil || len(n.Unbacked) != 3 || len(n.Unreported) != 1 || n.Reported != 3 {
			t.Errorf("%+v, %v", n, err)
		}
	})
}
