package runner

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// leaked is the secret stock/TOKEN.
const leaked = "hunter2-and-more"

// teller says a text wherever graders look: on stdout, in an argument, in the answer to it, in the transcript
// and in a file of the workspace, and beside it what has none.
func teller(b *fakeBackend, said string) {
	b.programs["stock"] = stockServer("it is "+said, "")
	b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
		c, err := openSession(p.container, "stock")
		if err == nil {
			_, err = c.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"price","arguments":{"item":"bolt","key":"` + said + `"}}}`)
		}
		if err != nil {
			fmt.Fprintln(p.err, err)
			return 1
		}
		for i := range said { // no write holds a whole secret
			io.WriteString(p.out, said[i:i+1])
		}
		var lines []string
		for _, e := range []evidence.TranscriptEvent{
			{Type: "tool.execution_start", ToolCallID: "1", ToolName: "bash", Arguments: json.RawMessage(`{"command":"echo ` + said + `","path":"."}`)},
			{Type: "assistant.message", Content: said},
		} {
			line, _ := json.Marshal(e)
			lines = append(lines, string(line)+"\n")
		}
		p.container.write(plan.TranscriptPath, fakeFile{content: strings.Join(lines, "")})
		return 0
	}}
	var tree bytes.Buffer
	w := tar.NewWriter(&tree)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755})
	for _, f := range [][2]string{{"notes.txt", "key " + said}, {"plain.txt", "plain"}, {said + ".txt", ""}} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}))
		_, short := io.WriteString(w, f[1])
		err = errors.Join(err, short)
	}
	err = errors.Join(err, w.Close())
	b.collect[sandbox.WorkspaceDir] = func(out io.Writer) error { _, wrote := out.Write(tree.Bytes()); return errors.Join(err, wrote) }
}

// A check of a text, an argument or a file from which a secret was removed is an error that names the secret,
// also of what would pass or fail with the asterisks. Other checks, and all checks of asterisks that the agent
// and the server wrote, pass and fail as ever.
func TestChecksOfRemovedSecrets(t *testing.T) {
	tests := []struct {
		kind, config string
		removed      evidence.VerdictResult // where the secret was said
		stars        evidence.VerdictResult // where asterisks were
	}{
		{"text", `{"contains":["****"]}`, "error", "pass"},
		{"text", `{"contains":["` + leaked + `"]}`, "error", "fail"},
		{"text", `{"not_contains":["nothing of it"]}`, "error", "pass"},
		{"text", `{"contains_any":["a","****"]}`, "error", "pass"},
		{"text", `{"regex_not_match":["^\\*+$"],"turns":"all"}`, "error", "fail"},
		{"json_schema", `{"schema":{"type":"string"}}`, "error", "fail"},
		{"file", `{"must_exist":["plain.txt"],"content_patterns":[{"path":"plain.txt","must_match":["plain"]}]}`, "pass", "pass"},
		{"file", `{"content_patterns":[{"path":"notes.txt","must_match":["key"]}]}`, "error", "pass"},
		{"file", `{"content_patterns":[{"path":"notes.txt","must_not_match":["key"]}]}`, "error", "fail"},
		{"file", `{"must_not_exist":["notes.txt"]}`, "fail", "fail"},
		{"file", `{"must_exist":["` + leaked + `.txt"]}`, "error", "fail"},
		{"file", `{"must_not_exist":["` + leaked + `.txt"]}`, "error", "pass"},
		{"diff", `{"expected_files":[{"path":"notes.txt","contains":["+key"]}]}`, "error", "pass"},
		{"mcp_compliance", `{"server":"stock","expect_tools_used":[{"tool":"price","args":{"values":{"item":"bolt"}}}]}`, "pass", "pass"},
		{"mcp_compliance", `{"server":"stock","expect_tools_used":[{"tool":"price","args":{"values":{"key":"` + strings.Repeat("*", len(leaked)) + `"}}}]}`, "error", "pass"},
		{"mcp_compliance", `{"server":"stock","expect_tools_used":[{"tool":"price","args":{"match":"exact","values":{"item":"bolt"}}}]}`, "error", "fail"},
		{"mcp_compliance", `{"server":"stock","reject_tools":["price"],"expect_tools_used":[{"tool":"price","args":{"values":{"key":"x"}}}]}`, "fail", "fail"},
		{"mcp_compliance", `{"server":"stock","max_tool_errors":0,"errors":{"soft":"count"}}`, "error", "pass"},
		{"tool_constraint", `{"expect_tools":[{"tool":"price","args":{"item":"bolt"}}]}`, "pass", "pass"},
		{"tool_constraint", `{"expect_tools":[{"tool":"price","args":{"key":{"contains":"**"}}}]}`, "error", "pass"},
		{"tool_constraint", `{"reject_tools":[{"tool":"price","args":{"key":{"contains":"**"}}}]}`, "error", "fail"},
		{"tool_constraint", `{"reject_tools":[{"tool":"bash","command_pattern":"rm"}]}`, "error", "pass"},
		{"tool_constraint", `{"expect_tools":[{"tool":"bash","path_pattern":"[.]"}]}`, "pass", "pass"},
		{"tool_constraint", `{"allow_only":[{"tool":"price","source":"mcp:stock","args":{"key":"x"}},{"tool":"bash"}]}`, "error", "fail"},
		{"tool_calls", `{"expect":[{"tool":"bash","args":{"command":{"contains":"echo"}}}]}`, "error", "pass"},
	}
	for said, want := range map[string]func(i int) evidence.VerdictResult{
		leaked:                           func(i int) evidence.VerdictResult { return tests[i].removed },
		strings.Repeat("*", len(leaked)): func(i int) evidence.VerdictResult { return tests[i].stars },
	} {
		synctest.Test(t, func(t *testing.T) {
			b, o, trial := testBackend(), options(t), testTrial(1)
			o.Host.Secrets = &secret.Set{}
			o.Host.Secrets.Add(leaked, "stock/TOKEN")
			trial.Agent.Executor, trial.Agent.Transcript = "script", plan.TranscriptPath
			trial.Graders = nil
			for _, test := range tests {
				trial.Graders = append(trial.Graders, grader(test.kind, test.config))
			}
			teller(b, said)
			r := runOne(t, b, trial, o)
			if len(r.Verdicts.Verdicts) != len(tests) {
				t.Fatalf("%s: %s", r.Verdicts.Class, r.Verdicts.Message)
			}
			for i, got := range r.Verdicts.Verdicts {
				if got.Result != want(i) || got.Result == evidence.VerdictError && !strings.Contains(got.Feedback, "waza removed the secret stock/TOKEN from") {
					t.Errorf("%q: %s %s is %s, want %s: %s", said, tests[i].kind, tests[i].config, got.Result, want(i), got.Feedback)
				}
			}
			again, err := grading.Grade(TrialDir(o.Dir, "buy", 1), r.Trial)
			if err != nil || len(again.Verdicts) != len(tests) {
				t.Fatal(err)
			}
			for i, v := range again.Verdicts {
				if v.Result != r.Verdicts.Verdicts[i].Result {
					t.Errorf("%s is %s when it is graded again", tests[i].config, v.Result)
				}
			}
		})
	}
}
