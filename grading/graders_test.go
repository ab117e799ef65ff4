package grading_test

import (
	"archive/tar"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

const (
	pass      = evidence.VerdictPass
	fail      = evidence.VerdictFail
	cannotSay = evidence.VerdictError
)

func TestText(t *testing.T) {
	s := scene{trial: evidence.Trial{FinalOutput: "The Answer is 42.\n"}}
	turns := scene{trial: evidence.Trial{EarlierOutput: "first\n", FinalOutput: "second"}}
	run(t, "text", []check{
		{"no checks", s, `{}`, pass, 1, ""},
		{"no config", s, ``, pass, 1, ""},
		{"any case", s, `{"contains":["the answer"],"not_contains":["question"]}`, pass, 1, "All 2"},
		{"any case of letters with several forms", scene{trial: evidence.Trial{FinalOutput: "ὁδός ΟΔΟΣ, 3 K, İzmir"}}, `{"contains":["ΣΟΔ","οδος","3 k","izmir"]}`, fail, 0.75, `"ΣΟΔ"; it does not`},
		{"any case of what must not be", scene{trial: evidence.Trial{FinalOutput: "οδος"}}, `{"not_contains":["ΟΔΟΣ"]}`, fail, 0, `"ΟΔΟΣ"; it does`},
		{"this case", s, `{"contains_cs":["The Answer"],"not_contains_cs":["THE"]}`, pass, 1, ""},
		{"other case", s, `{"contains_cs":["the answer"],"not_contains_cs":["Answer"]}`, fail, 0, `contain "the answer" in this case`},
		{"half", s, `{"contains":["answer","question"]}`, fail, 0.5, `"question"; it does not`},
		{"expressions", s, `{"regex_match":["\\d+\\.\\n$"],"regex_not_match":["^is"]}`, pass, 1, ""},
		{"the last turn", turns, `{"contains":["second"],"not_contains":["first"],"regex_match":["^second$"]}`, pass, 1, ""},
		{"all turns", turns, `{"turns":"all","contains":["first\nsecond"]}`, pass, 1, ""},
		{"turns alone is no check", turns, `{"turns":"all"}`, pass, 1, ""},
		{"no output was found", scene{trial: evidence.Trial{Gaps: []string{"final output: no file out.txt"}}}, `{"not_contains":["x"]}`, cannotSay, 0, "out.txt"},
		{"expressions that do not hold", s, `{"regex_match":["^is"],"regex_not_match":["[0-9]+"]}`, fail, 0, `it does: "42"`},
	})
}

func TestFile(t *testing.T) {
	s := scene{workspace: archive(t,
		file("./a.txt", "old"),
		file("dir/b.txt", "hello 1\n"),
		tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "a.txt"},
		tar.Header{Typeflag: tar.TypeLink, Name: "hard", Linkname: "a.txt"},
		tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"},
		tar.Header{Typeflag: tar.TypeDir, Name: "empty/"},
		file("../escape", "x"), file("/etc/passwd", "x"), file("etc/../../../escape", "x"),
		file("a.txt", "new"),
	)}
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	links := scene{workspace: archive(t, link("far", "sub/near"), link("sub/near", "../b"), link("self", "self"), link("out", "../b"),
		link("absolute", "/etc/passwd"), link("gone", "nothing"), link("there", "sub"), link("here", "."), link("chain", "gone"), file("b", "x"))}
	behind := scene{workspace: archive(t, file("real/in/x", ""), file("real/b", ""), link("to", "real/in"), link("d/deep", ".."), link("round", "."), link("real/in/up", ".."),
		link("absolute", "/workspace/real/in"), link("winding", "to/../in"), link("self", "self"))}
	run(t, "file", []check{
		{"exist", s, `{"must_exist":["a.txt","dir","dir/b.txt","./link","hard","pipe","empty"],"must_not_exist":["b.txt","escape","etc/passwd"]}`, pass, 1, "All 10"},
		{"links to something", links, `{"must_exist":["far","sub/near","there","here"]}`, pass, 1, ""},
		{"links to nothing", links, `{"must_exist":["self","out","absolute","gone","chain"]}`, fail, 0, `"gone" to exist; it is a symbolic link that leads to nothing in the workspace`},
		{"links are there", links, `{"must_not_exist":["self","out","absolute","gone","chain"]}`, fail, 0, ""},
		{"behind links", behind, `{"must_exist":["to/x","d/deep/to/x","round/to/x","to/up/b"]}`, pass, 1, ""},
		{"what is behind links must not be", behind, `{"must_not_exist":["to/x","d/deep/to/x","absolute/x","winding/x","self/x"]}`, fail, 0, `"to/x" not to exist; there is a file`},
		{"not behind links", behind, `{"must_not_exist":["to/y","d/deep/y","x"]}`, pass, 1, ""},
		{"behind links out", behind, `{"must_exist":["absolute/x","winding/x","self/x"]}`, fail, 0, "leads to nothing in the workspace"},
		{"do not", s, `{"must_exist":["c.txt"],"must_not_exist":["link"]}`, fail, 0, `"link" not to exist; there is a symbolic link`},
		{"the last entry counts", s, `{"content_patterns":[{"path":"a.txt","must_match":["^new$"],"must_not_match":["old"]}]}`, pass, 1, ""},
		{"content", s, `{"content_patterns":[{"path":"dir/b.txt","must_match":["hello","bye"],"must_not_match":["\\d"]}]}`, fail, 0.5, `"dir/b.txt" not to match`},
		{"content of a link", s, `{"content_patterns":[{"path":"link","must_not_match":["x"]}]}`, fail, 0, "not followed"},
		{"content of a hard link", s, `{"content_patterns":[{"path":"hard"}]}`, fail, 0, "hard link"},
		{"content of a directory", s, `{"content_patterns":[{"path":"dir"}]}`, fail, 0, "a directory"},
		{"content of nothing", s, `{"content_patterns":[{"path":"c","must_not_match":["x"]}]}`, fail, 0, "does not exist"},
		{"too large", scene{workspace: archive(t, file("big", strings.Repeat("x", 16<<20+1)))}, `{"content_patterns":[{"path":"big"}]}`, fail, 0, "at most"},
		{"no workspace", scene{}, `{"must_not_exist":["a"]}`, cannotSay, 0, "workspace.tar: no such file"},
		{"a torn workspace", scene{workspace: s.workspace[:700]}, `{"must_not_exist":["a"]}`, cannotSay, 0, "end mark"},
		{"one cut between entries", scene{workspace: s.workspace[:1024]}, `{"must_not_exist":["b"]}`, cannotSay, 0, "end mark"},
		{"an empty workspace", scene{workspace: archive(t)}, `{"must_not_exist":["b"]}`, pass, 1, ""},
		{"a gap", scene{workspace: s.workspace, trial: evidence.Trial{Gaps: []string{"workspace: too large"}}}, `{"must_exist":["a.txt"]}`, cannotSay, 0, "too large"},
	})
}

func TestBehavior(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := scene{
		trial: evidence.Trial{
			Executor: "script", Servers: servers("github", "web"),
			AgentStart: start, AgentEnd: start.Add(1500 * time.Millisecond),
		},
		frames: concat(call("github", "1", "get", `{}`, answered), call("github", "2", "get", `{}`, answered)),
		transcript: `{"type":"tool.execution_start","tool_name":"mcp__github__get","tool_call_id":"1"}
{"type":"tool.execution_start","tool_name":"github-get","tool_call_id":"2"}
{"type":"tool.execution_start","tool_name":"read_file","tool_call_id":"3"}
`,
	}
	quiet := scene{trial: evidence.Trial{Executor: "mock"}}
	untold := s
	untold.trial.Gaps = []string{"transcript: too large"}
	torn := s
	torn.transcript = "{"
	unseen := scene{trial: evidence.Trial{Executor: "mock"}, noFrames: true}
	lost := s
	lost.trial.Gaps = []string{"frames: disk full"}
	noisy := s
	noisy.trial.Gaps = []string{"frames of web: its file has no room for more"}
	failing := s
	failing.frames = call("github", "1", "get", `{}`, toolError)
	gap := s
	gap.frames = append(concat(s.frames), evidence.Frame{Server: "web", Conn: "web", Dir: evidence.ToServer, Raw: []byte("{")})
	command := s
	command.transcript, command.trial.Executor = "", "command"
	run(t, "behavior", []check{
		{"told calls count once", s, `{"max_tool_calls":3,"max_mcp_calls":2}`, pass, 1, ""},
		{"too many", s, `{"max_tool_calls":2,"max_mcp_calls":1}`, fail, 0, `at most 1 MCP calls; found 2: call 1 ("get" of github: ok), call 2`},
		{"none allowed, none made", quiet, `{"max_mcp_calls":0}`, pass, 1, ""},
		{"none allowed", s, `{"max_mcp_calls":0}`, fail, 0, ""},
		{"servers", s, `{"required_mcp_servers":["github"],"forbidden_mcp_servers":["web"]}`, pass, 1, ""},
		{"servers the other way", s, `{"required_mcp_servers":["web"],"forbidden_mcp_servers":["github"]}`, fail, 0, `Expected a call to server "web"; there was none.`},
		{"tools", s, `{"required_tools":["get","read_file","github-get"],"forbidden_tools":["GET","ge"]}`, pass, 1, ""},
		{"tools the other way", s, `{"required_tools":["ge"],"forbidden_tools":["read_file"]}`, fail, 0, `found "read_file" (builtin)`},
		{"time", s, `{"max_duration_ms":1500}`, pass, 1, ""},
		{"too long", s, `{"max_duration_ms":1499}`, fail, 0, "it took 1500 ms"},
		{"no times", quiet, `{"max_duration_ms":1}`, cannotSay, 0, "times"},
		{"a torn transcript", torn, `{"max_tool_calls":9}`, cannotSay, 0, "transcript.jsonl line 1"},
		{"a transcript with a gap", untold, `{"max_tool_calls":9}`, cannotSay, 0, "too large"},
		{"that is not needed", torn, `{"max_mcp_calls":2}`, pass, 1, ""},
		{"no frames", unseen, `{"max_mcp_calls":0}`, cannotSay, 0, "frames: no such file"},
		{"frames with a gap", lost, `{"max_mcp_calls":9}`, cannotSay, 0, "disk full"},
		{"a full file of frames of another server", noisy, `{"mcp_servers":{"github":{"max_calls":2}}}`, pass, 1, ""},
		{"a full file of frames", noisy, `{"mcp_servers":{"web":{"max_calls":0}}}`, cannotSay, 0, "frames of web: its file has no room for more"},
		{"no tokens without a model", s, `{"max_tokens":5}`, pass, 1, ""},
		{"tokens that nothing tells", command, `{"max_tokens":5}`, cannotSay, 0, "its tokens are not known"},
		{"not supported", s, `{"max_iterationz":5}`, cannotSay, 0, "unknown key"},
		{"a server's limits", s, `{"mcp_servers":{"github":{"max_calls":2,"max_errors":0,"required_tools":["get","/g.*/"],"forbidden_tools":["Get","/ge/"]},"web":{"max_calls":0}}}`, pass, 1, "All 7"},
		{"a server's limits the other way", s, `{"mcp_servers":{"github":{"max_calls":1,"max_errors":0,"required_tools":["put"],"forbidden_tools":["/g.*/"]}}}`, fail, 0.25, `Expected at most 1 calls to server "github"; found 2: call 1 ("get" of github: ok), call 2`},
		{"a server's errors", failing, `{"mcp_servers":{"github":{"max_errors":0},"web":{"max_errors":0}}}`, fail, 0.5, `Expected at most 0 failed calls to server "github"; found 1: call 1 ("get" of github: tool_error).`},
		{"limits of no such server", s, `{"mcp_servers":{"git":{"max_calls":0,"max_errors":0,"forbidden_tools":["a"]}},"forbidden_mcp_servers":["git","sql"]}`, pass, 1, `All 5 checks hold. The trial has no server "git", so the agent could not call it. The trial has no server "sql"`},
		{"forbidden and another fails", s, `{"forbidden_mcp_servers":["git","github"]}`, fail, 0.5, `The trial has no server "git"`},
		{"required of no such server", s, `{"mcp_servers":{"git":{"required_tools":["a"],"max_calls":1}}}`, cannotSay, 0, `no server "git"`},
		{"no such server required", s, `{"required_mcp_servers":["git"],"forbidden_mcp_servers":["sql"]}`, cannotSay, 0, `no server "git"`},
		{"a gap elsewhere", gap, `{"mcp_servers":{"github":{"max_calls":2}}}`, pass, 1, ""},
		{"a gap of the server", gap, `{"mcp_servers":{"web":{"max_calls":0}}}`, cannotSay, 0, "of web"},
		{"a tool that may be a builtin one", command, `{"required_tools":["read_file"]}`, cannotSay, 0, "gives no transcript"},
		{"one that is on the wire", command, `{"required_tools":["get"],"forbidden_tools":["put"]}`, pass, 1, ""},
	})
}

// Every grader counts a call once that the client made again because the server had ended its session.
func TestCallMadeAgainCountsOnce(t *testing.T) {
	refused := call("github", "1", "close_issue", `{"number":1}`, `"error":{"code":-32600,"message":"There is no such session, or it has ended."}`)
	refused[0].Conn, refused[1].Conn, refused[1].Synthetic = "github/0", "github/0", evidence.SyntheticExpired
	s := trialOf(refused, ok("2", "close_issue", `{"number":1}`))
	for kind, configs := range map[string][]string{
		"mcp_compliance": {
			`{"match":"exact","expect_tools_used":["close_issue"]}`, `{"match":"effects","expect_tools_used":["close_issue"]}`,
			`{"expect_tools_used":[{"tool":"close_issue","count":{"max":1}}]}`, `{"max_duplicate_calls":0}`,
		},
		"behavior":        {`{"max_mcp_calls":1}`, `{"max_tool_calls":1,"mcp_servers":{"github":{"max_calls":1,"max_errors":0}}}`},
		"tool_calls":      {`{"max_calls":1}`},
		"action_sequence": {`{"matching_mode":"exact_match","expected_actions":["mcp:github/close_issue"]}`},
	} {
		for _, config := range configs {
			if v := judge(t, s, kind, config); v.Result != pass {
				t.Errorf("%s %s: %s: %s", kind, config, v.Result, v.Feedback)
			}
		}
	}

	killed := call("github", "0", "get_issue", `{}`, toolError)
	killed[0].Fault, killed[1].Fault = evidence.FaultKill, evidence.FaultKill
	s.frames = concat(killed, s.frames)
	if v := judge(t, s, "recovery", `{"accept":["otherwise"]}`); v.Result != pass {
		t.Errorf("recovery: %s: %s", v.Result, v.Feedback)
	}
}
