package grading_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
)

// complianceSeeds use each key of mcp_compliance.
var complianceSeeds = []string{
	thorough,
	`{"match":"exact","expect_tools_used":[{"tool":"x","server":"s","any_of":[{"tool":"/y/"}],"count":{"min":0,"max":2},"args":{"match":"within","values":{"n":{"any_of":[{"range":[1,null]},{"absent_or":"a"},{"set":[1]},{"equals":{"regex":1}}]}}}}]}`,
	`{"match":"subset","max_tool_errors":1,"errors":{"count":["tool"],"soft":"warn","expected":[{"tool":"x","code":-1}],"recovery":{"window":1,"require":"adapted"}},"threshold":0.5}`,
	`{"resources":{"expect":["/a/"],"reject":["b"]},"prompts":{"reject":["/.*/"]},"rug_pull":"fail","wire":{"unbacked_claims":"warn","unreported_calls":"warn"}}`,
}

// Every valid config can be used for grading, whatever the agent
// left, and the verdict is whole.
func FuzzGrade(f *testing.F) {
	for _, kind := range grading.Types() {
		f.Add(kind, []byte(`{"contains":["a"]}`), []byte(`{"id":1,"method":"tools/call","params":{"name":"x"}}`), "{}\n", []byte("x"))
	}
	f.Add("file", []byte(`{"must_exist":["a"],"content_patterns":[{"path":"."}]}`), []byte(``), "", archiveOf(f))
	f.Add("tool_constraint", []byte(`{"reject_tools":[{"tool":"x","path_pattern":"a"}]}`), []byte(`[]`), "null\n", []byte(""))
	f.Add("tool_constraint", []byte(`{"allow_only":[{"tool":"mcp:s-x"},{"tool":"custom:"},{"tool":"Builtin:view"}]}`), []byte(`{"id":1,"method":"tools/call","params":{"name":"x"}}`), uses("s-x", "read_file"), []byte(""))
	f.Add("mcp_compliance", []byte(`{"expect_tools_used":["/x/"],"server":"s"}`), []byte(`{}`), "", []byte(""))
	for kind, config := range map[string]string{
		"action_sequence":  `{"matching_mode":"in_order_match","expected_actions":["x","mcp:s/x"]}`,
		"behavior":         `{"mcp_servers":{"s":{"max_errors":0,"required_tools":["/x/"]}}}`,
		"diff":             `{"expected_files":[{"path":"a","contains":["+x","-y"]}]}`,
		"json_schema":      `{"schema":{"type":"object"},"extract_json":true}`,
		"recovery":         `{"accept":["again"],"max_again":1,"repeated_effect":"fail"}`,
		"skill_invocation": `{"mode":"any_order","required_skills":["a"],"allow_extra":false}`,
		"tool_calls":       `{"min_calls":1,"expect":[{"tool":"x","args":{"a":{"range":{"gt":1}}}}]}`,
		"tool_constraint":  `{"allow_only":[{"tool":"x","source":"mcp:*","args":{"a":{"set":[1]}}}]}`,
	} {
		raw := []byte(`{"id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1e3}}}`)
		f.Add(kind, []byte(config), raw, uses("s-x", "x", "skill"), []byte(""))
	}
	f.Add("prompt", []byte(`{"prompt":"p","judge":{"min_score":0.5}}`), []byte(`{"id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"\ud800"}}}`), gives(0.5), []byte("END"))
	f.Add("mcp_compliance", []byte(`{"rubric":"r","max_tool_errors":0}`), []byte(`{}`), "prose", []byte(""))
	for _, config := range complianceSeeds {
		f.Add("mcp_compliance", []byte(config), []byte(`{"id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":1}}}`), "{}\n", []byte(""))
		f.Add("mcp_compliance", []byte(config), []byte(`[{"id":1,"result":{"tools":[{"name":"x","inputSchema":{"$ref":"#"}}]}}]`), "", []byte(""))
	}
	f.Fuzz(func(t *testing.T, kind string, config, raw []byte, transcript string, workspace []byte) {
		if !json.Valid(config) {
			return
		}
		dir := lay(t, scene{
			trial: evidence.Trial{
				Executor: "script", Servers: servers("s"), Prompt: transcript, FinalOutput: string(workspace),
				Judge:   &evidence.Judge{BaseURL: "https://models.example", Model: "m", TimeoutSeconds: 1},
				Graders: []evidence.GraderSpec{{Name: "g", Type: kind, Weight: 1, Config: config}},
			},
			frames:     []evidence.Frame{{Server: "s", Conn: "c", Dir: evidence.ToServer, Raw: raw, Fault: evidence.FaultDrop}},
			transcript: transcript, workspace: workspace,
		})
		questions, err := questionsIn(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range questions {
			answer(t, dir, []grading.Question{q}, transcript)
		}
		got, err := gradeIn(dir)
		if err != nil {
			t.Fatal(err)
		}
		v := got.Verdicts[0]
		if v.Feedback == "" || v.Score < 0 || v.Score > 1 || (v.Result == evidence.VerdictPass) != (got.Class == evidence.ClassPass) {
			t.Errorf("%+v", got)
		}
	})
}

func archiveOf(f *testing.F) []byte {
	f.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "workspace.tar"))
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// FuzzCompliance is FuzzGrade for one grader, with frames in memory: the server is
// hostile, and so are the arguments of calls.
func FuzzCompliance(f *testing.F) {
	for _, config := range complianceSeeds {
		f.Add([]byte(config), []byte(`{"name":"x","inputSchema":{"type":"object"}}`), []byte(`{"name":"x","arguments":{"n":1,"number":9999}}`), []byte(`{"content":[{"type":"text","text":"Error: x"}]}`))
	}
	f.Fuzz(func(t *testing.T, config, tool, params, result []byte) {
		frame := func(dir evidence.Direction, format string, raw []byte) evidence.Frame {
			return evidence.Frame{Server: "s", Conn: "c", Dir: dir, Raw: fmt.Appendf(nil, format, raw)}
		}
		frames := []evidence.Frame{
			frame(evidence.ToServer, `{"id":1,"method":"tools/list"%s}`, nil), frame(evidence.ToClient, `{"id":1,"result":{"tools":[%s]}}`, tool),
			frame(evidence.ToServer, `{"id":2,"method":"tools/call","params":%s}`, params), frame(evidence.ToClient, `{"id":2,"result":%s}`, result),
			frame(evidence.ToServer, `{"id":3,"method":"tools/call","params":%s}`, params),
		}
		if !json.Valid(config) {
			return
		}
		v, err := grading.GradeFrames(evidence.Trial{Servers: servers("s")}, frames, grader("mcp_compliance", string(config)))
		if err != nil {
			t.Fatal(err)
		}
		if v.Feedback == "" || v.Score < 0 || v.Score > 1 || v.Result == evidence.VerdictError && v.Details != nil {
			t.Errorf("%+v", v)
		}
	})
}
