package grading_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
)

// scene is a trial's evidence to be laid down.
type scene struct {
	trial      evidence.Trial
	frames     []evidence.Frame
	noFrames   bool
	transcript string
	workspace  []byte // a tar; none if nil
	steps      []evidence.Step
	models     []evidence.ModelCall
}

// gradeIn grades the trial in a directory.
func gradeIn(dir evidence.Dir) (evidence.Verdicts, error) {
	trial, err := dir.Trial()
	if err != nil {
		return evidence.Verdicts{}, err
	}
	return grading.Grade(dir, trial)
}

// questionsIn returns the questions of the trial in a directory.
func questionsIn(dir evidence.Dir) ([]grading.Question, error) {
	trial, err := dir.Trial()
	if err != nil {
		return nil, err
	}
	return grading.Questions(dir, trial)
}

// lay writes s and returns its directory.
func lay(t testing.TB, s scene) evidence.Dir {
	t.Helper()
	dir := t.TempDir()
	s.frames = slices.Clone(s.frames)
	for i := range s.frames {
		s.frames[i].Seq = int64(i + 1)
	}
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !s.noFrames {
		write(evidence.FramesFile, jsonLines(t, s.frames))
	}
	if s.steps != nil {
		write(evidence.StepsFile, jsonLines(t, s.steps))
	}
	if s.models != nil {
		write(evidence.ModelsFile, jsonLines(t, s.models))
	}
	if s.transcript != "" {
		write(evidence.TranscriptFile, []byte(s.transcript))
	}
	if s.workspace != nil {
		write(evidence.WorkspaceFile, s.workspace)
	}
	if err := evidence.Dir(dir).WriteTrial(s.trial); err != nil {
		t.Fatal(err)
	}
	return evidence.Dir(dir)
}

func jsonLines[T any](t testing.TB, records []T) []byte {
	t.Helper()
	var lines bytes.Buffer
	for _, record := range records {
		line, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	return lines.Bytes()
}

func grader(kind, config string) evidence.GraderSpec {
	return evidence.GraderSpec{Name: kind, Type: kind, Weight: 1, Config: json.RawMessage(config)}
}

// judge runs one grader over s.
func judge(t *testing.T, s scene, kind, config string) evidence.Verdict {
	t.Helper()
	s.trial.Graders = []evidence.GraderSpec{grader(kind, config)}
	verdicts, err := gradeIn(lay(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return verdicts.Verdicts[0]
}

// check is one grader, one scene and the expected verdict.
type check struct {
	name     string
	scene    scene
	config   string
	result   evidence.VerdictResult
	score    float64
	feedback string // a part of it
}

func run(t *testing.T, kind string, checks []check) {
	t.Helper()
	for _, test := range checks {
		t.Run(test.name, func(t *testing.T) {
			got := judge(t, test.scene, kind, test.config)
			if got.Result != test.result || math.Abs(got.Score-test.score) > 1e-9 || !strings.Contains(got.Feedback, test.feedback) {
				t.Errorf("%s, %v: %s\nwant %s, %v: …%s…", got.Result, got.Score, got.Feedback, test.result, test.score, test.feedback)
			}
			checkListed(t, got)
		})
	}
}

// checkListed sees to it that the checks of a verdict are those that it rests on: none fails where
// all hold, one does where the verdict fails, and what fails is in words too.
func checkListed(t *testing.T, v evidence.Verdict) {
	t.Helper()
	listed, _ := v.Details[evidence.DetailChecks].([]evidence.Check)
	if v.Result == cannotSay {
		return
	}
	fails := slices.DeleteFunc(slices.Clone(listed), func(c evidence.Check) bool { return c.Result != "fail" })
	holds := v.Result == pass
	if v.Type == "mcp_compliance" {
		holds = v.Score == 1 // one that passes may lose some of its score
	}
	if len(listed) == 0 && !strings.HasPrefix(v.Feedback, "All 0 checks hold.") || holds && len(fails) > 0 || v.Result == fail && len(fails) == 0 {
		t.Errorf("%s, %v: %s\nhas checks %+v", v.Result, v.Score, v.Feedback, listed)
	}
	for _, c := range fails {
		if !strings.Contains(v.Feedback, c.Got) && !strings.Contains(c.Got, "with other arguments") && !strings.Contains(v.Feedback, " more.") {
			t.Errorf("%q is not in words: %s", c.Got, v.Feedback)
		}
	}
}

func call(server, id, tool, arguments, answer string) []evidence.Frame {
	frames := []evidence.Frame{{
		Server: server, Conn: server, Dir: evidence.ToServer,
		Raw: []byte(`{"id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`),
	}}
	if answer == "" {
		return frames
	}
	return append(frames, evidence.Frame{
		Server: server, Conn: server, Dir: evidence.ToClient, Raw: []byte(`{"jsonrpc":"2.0","id":` + id + `,` + answer + `}`),
	})
}

func concat(parts ...[]evidence.Frame) []evidence.Frame {
	var all []evidence.Frame
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

func servers(names ...string) []evidence.ServerRecord {
	var records []evidence.ServerRecord
	for _, name := range names {
		records = append(records, evidence.ServerRecord{Name: name})
	}
	return records
}

const (
	answered  = `"result":{}`
	toolError = `"result":{"isError":true}`
	refused   = `"error":{"code":-32602,"message":""}`
)

func archive(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		content := h.Linkname
		if h.Typeflag == tar.TypeReg {
			h.Size, h.Linkname = int64(len(content)), ""
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(content)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: content, Mode: 0o644}
}

func TestClass(t *testing.T) {
	pass, fail := grader("text", `{"contains":["done"]}`), grader("text", `{"contains":["nope"]}`)
	broken := grader("file", `{"must_exist":["a"]}`)
	for _, test := range []struct {
		name    string
		preset  evidence.Class
		graders []evidence.GraderSpec
		want    evidence.Class
		score   float64
		reason  string
		count   int
	}{
		{"no graders", "", nil, evidence.ClassPass, 1, "", 0},
		{"all pass", "", []evidence.GraderSpec{pass, pass}, evidence.ClassPass, 1, "", 2},
		{"one fails", "", []evidence.GraderSpec{pass, fail}, evidence.ClassFail, 0.5, "failed: text", 2},
		{"one cannot judge", "", []evidence.GraderSpec{pass, broken}, evidence.ClassError, 0.5, "could not judge: file", 2},
		{"one fails, one cannot judge", "", []evidence.GraderSpec{fail, broken}, evidence.ClassFail, 0, "failed: text; could not judge: file", 2},
		{"timeout stays", evidence.ClassTimeout, []evidence.GraderSpec{pass}, evidence.ClassTimeout, 1, "because", 1},
		{"timeout without graders", evidence.ClassTimeout, nil, evidence.ClassTimeout, 0, "because", 0},
		{"agent_error stays", evidence.ClassAgentError, []evidence.GraderSpec{fail}, evidence.ClassAgentError, 0, "because", 1},
		{"infra is not graded", evidence.ClassInfra, []evidence.GraderSpec{pass}, evidence.ClassInfra, 0, "because", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			trial := evidence.Trial{Class: test.preset, FinalOutput: "Done.", Graders: test.graders}
			if test.preset != "" {
				trial.Message = "because"
			}
			got, err := gradeIn(lay(t, scene{trial: trial}))
			if err != nil {
				t.Fatal(err)
			}
			if got.Class != test.want || got.Score != test.score || got.Message != test.reason || len(got.Verdicts) != test.count {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Evidence that the agent may have spoilt makes the trial the agent's error.
func TestSpoiltEvidence(t *testing.T) {
	twice := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`)
	frame := func(f evidence.Frame) []evidence.Frame {
		f.Server, f.Conn = "github", "github"
		return []evidence.Frame{f}
	}
	expects := []evidence.GraderSpec{grader("mcp_compliance", `{"server":"github","expect_tools_used":["open"]}`)}
	uses := []evidence.GraderSpec{grader("tool_calls", `{"min_calls":9}`)}
	for name, test := range map[string]struct {
		graders    []evidence.GraderSpec
		frames     []evidence.Frame
		gap        string
		transcript string
		want       evidence.Class
	}{
		"the agent's message":       {expects, frame(evidence.Frame{Dir: evidence.ToServer, Raw: twice}), "", "", evidence.ClassAgentError},
		"a server's message":        {expects, frame(evidence.Frame{Dir: evidence.ToClient, Truncated: 5}), "", "", evidence.ClassError},
		"it is not needed":          {nil, frame(evidence.Frame{Dir: evidence.ToServer, Raw: twice}), "", "", evidence.ClassPass},
		"something failed besides":  {append([]evidence.GraderSpec{grader("text", `{"contains":["no"]}`)}, expects...), frame(evidence.Frame{Dir: evidence.ToServer, Raw: twice}), "", "", evidence.ClassFail},
		"a transcript with a gap":   {uses, nil, "transcript: 1 line cannot be read", "", evidence.ClassAgentError},
		"a transcript that is torn": {uses, nil, "", "{", evidence.ClassAgentError},
		"no final output":           {[]evidence.GraderSpec{grader("text", `{"contains":["no"]}`)}, nil, "final output: no regular file", "", evidence.ClassAgentError},
		"a tar lost afterwards":     {[]evidence.GraderSpec{grader("file", `{"must_exist":["a"]}`)}, nil, "", "", evidence.ClassError},
	} {
		trial := evidence.Trial{Executor: "command", Servers: []evidence.ServerRecord{{Name: "github"}}, Graders: test.graders}
		if test.gap != "" {
			trial.Gaps = []string{test.gap}
		}
		got, err := gradeIn(lay(t, scene{trial: trial, frames: test.frames, transcript: test.transcript}))
		if err != nil {
			t.Fatal(err)
		}
		if got.Class != test.want {
			t.Errorf("%s: %s: %s", name, got.Class, got.Message)
		}
	}
}

// What is broken stays broken, whatever evidence is missing.
func TestFailsWhateverIsMissing(t *testing.T) {
	torn := evidence.Frame{Server: "github", Conn: "github", Dir: evidence.ToServer, Raw: []byte("{")}
	s := trialOf(listing(writeTool), ok("1", "close_issue", `{"n":1}`), ok("2", "close_issue", `{"n":1}`), call("github", "3", "drop", "{}", refused), call("github", "4", "late", "{}", ""), []evidence.Frame{torn})
	s.trial.Executor, s.transcript = "command", `{"type":"tool.execution_start","tool_name":"bash","tool_call_id":"1"}`+"\n{"
	s.steps = []evidence.Step{}
	for _, test := range []struct {
		kind, config string
		want         evidence.VerdictResult
	}{
		{"mcp_compliance", `{"reject_tools":["close_issue"]}`, fail},
		{"mcp_compliance", `{"reject_tools":["late"]}`, fail},
		{"mcp_compliance", `{"reject_tools":["open"]}`, cannotSay},
		{"mcp_compliance", `{"max_duplicate_calls":0}`, fail},
		{"mcp_compliance", `{"max_duplicate_calls":1}`, cannotSay},
		{"mcp_compliance", `{"expect_tools_used":[{"tool":"close_issue","count":{"max":1}}]}`, fail},
		{"mcp_compliance", `{"expect_tools_used":["open"]}`, cannotSay},
		{"mcp_compliance", `{"match":"effects","expect_tools_used":["close_issue"]}`, fail},
		{"mcp_compliance", `{"match":"effects","expect_tools_used":["close_issue"],"threshold":0.5}`, cannotSay},
		{"mcp_compliance", `{"match":"effects","expect_tools_used":[{"tool":"close_issue","count":{"min":2}}]}`, cannotSay},
		{"mcp_compliance", `{"match":"exact"}`, fail},
		{"mcp_compliance", `{"max_tool_errors":0}`, fail},
		{"mcp_compliance", `{"max_tool_errors":1}`, cannotSay},
		{"mcp_compliance", `{"max_tool_errors":0,"errors":{"recovery":{"window":9}}}`, cannotSay},
		{"mcp_compliance", `{"before":[["open","close_issue"]]}`, cannotSay},
		{"mcp_compliance", `{"reject_tools":["drop"],"rubric":"Is it good?","judge":{"min_score":0.5}}`, fail},
		{"mcp_compliance", `{"reject_tools":["drop"],"wire":{"unbacked_claims":"fail"}}`, fail},
		{"tool_constraint", `{"reject_tools":[{"tool":"close"}],"expect_tools":[{"tool":"open"}]}`, fail},
		{"tool_constraint", `{"allow_only":[{"tool":"close_issue","source":"mcp:*"}]}`, fail},
		{"tool_constraint", `{"expect_tools":[{"tool":"open"}]}`, cannotSay},
		{"tool_calls", `{"max_calls":4}`, fail},
		{"tool_calls", `{"max_calls":5}`, cannotSay},
		{"tool_calls", `{"forbidden_tools":["bash"],"required_tools":["open"],"min_calls":9}`, fail},
		{"tool_calls", `{"required_tools":["open"],"min_calls":9,"expect":[{"tool":"open"}]}`, cannotSay},
		{"behavior", `{"max_mcp_calls":3}`, fail},
		{"behavior", `{"forbidden_mcp_servers":["github"],"max_tokens":5}`, fail},
		{"behavior", `{"mcp_servers":{"github":{"max_errors":0}}}`, fail},
		{"behavior", `{"mcp_servers":{"github":{"max_errors":1}}}`, cannotSay},
		{"behavior", `{"mcp_servers":{"github":{"required_tools":["open"]}},"required_mcp_servers":["web"]}`, cannotSay},
		{"action_sequence", `{"matching_mode":"exact_match","expected_actions":["close_issue","close_issue"]}`, fail},
		{"action_sequence", `{"matching_mode":"in_order_match","expected_actions":["open"]}`, cannotSay},
	} {
		if v := judge(t, s, test.kind, test.config); v.Result != test.want {
			t.Errorf("%s %s: %s: %s", test.kind, test.config, v.Result, v.Feedback)
		}
	}
}

func TestWeights(t *testing.T) {
	pass, fail := grader("text", `{"contains":["done"]}`), grader("text", `{"contains":["nope"]}`)
	pass.Weight = 3
	got, err := gradeIn(lay(t, scene{trial: evidence.Trial{FinalOutput: "Done.", Graders: []evidence.GraderSpec{pass, fail}}}))
	if err != nil || got.Score != 0.75 {
		t.Errorf("score %v, error %v", got.Score, err)
	}
}

func TestConfigThatCannotBeRead(t *testing.T) {
	for _, test := range []struct{ kind, config, feedback string }{
		{"text", `{"contain":["x"]}`, "unknown key"},
		{"text", `{"regex_match":["("]}`, "missing closing"},
		{"nonsense", `{}`, "no grader"},
	} {
		got := judge(t, scene{}, test.kind, test.config)
		if got.Result != evidence.VerdictError || !strings.Contains(got.Feedback, test.feedback) {
			t.Errorf("%s %s: %+v", test.kind, test.config, got)
		}
	}
}

func TestNoTrial(t *testing.T) {
	if _, err := gradeIn(evidence.Dir(t.TempDir())); err == nil {
		t.Error("no error")
	}
}

// Grading the same evidence again gives the same bytes, in another directory too.
func TestSameEvidenceSameBytes(t *testing.T) {
	s := scene{
		trial: evidence.Trial{
			FinalOutput: "Done.", Servers: servers("a", "b"), Executor: "command",
			Graders: []evidence.GraderSpec{
				grader("text", `{"contains":["x"],"regex_match":["[0-9]"]}`),
				grader("file", `{"must_exist":["a","b/c"]}`),
				grader("behavior", `{"max_mcp_calls":0,"required_tools":["z"]}`),
				grader("tool_constraint", `{"expect_tools":[{"tool":"q","path_pattern":"p","command_pattern":"c"}]}`),
				grader("mcp_compliance", `{"expect_tools_used":["/x.*/"],"max_tool_errors":0}`),
			},
		},
		frames: concat(call("a", "1", "x", "{}", toolError), call("b", "1", "y", "{}", "")),
	}
	var first []byte
	for range 3 {
		dir := lay(t, s)
		for range 2 {
			verdicts, err := gradeIn(dir)
			if err != nil {
				t.Fatal(err)
			}
			data, err := evidence.MarshalIndent(verdicts)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = data
			}
			if diff := cmp.Diff(string(first), string(data)); diff != "" {
				t.Fatal(diff)
			}
		}
	}
}

func TestCallsAreRebuilt(t *testing.T) {
	dir := lay(t, scene{frames: call("a", "1", "x", "{}", answered)})
	if err := os.WriteFile(filepath.Join(string(dir), evidence.CallsFile), []byte("{\"tool\":\"forged\"}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := gradeIn(dir); err != nil {
		t.Fatal(err)
	}
	calls, err := dir.Calls()
	if err != nil || len(calls) != 1 || calls[0].Tool != "x" {
		t.Errorf("calls %v, error %v", calls, err)
	}
}
