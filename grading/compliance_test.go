package grading_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// github is a trial with one or two servers and the frames of calls.
func trialOf(frames ...[]evidence.Frame) scene {
	return scene{
		trial:  evidence.Trial{Executor: "command", Servers: servers("github", "web")},
		frames: concat(frames...),
	}
}

// ok is a call to github that succeeds.
func ok(id, tool, arguments string) []evidence.Frame {
	return call("github", id, tool, arguments, `"result":{"content":[]}`)
}

// listing is a list of github's tools: names that end in ! say that they only read, in
// ? nothing, and all others that they do not.
func listing(tools string) []evidence.Frame {
	return []evidence.Frame{
		{Server: "github", Conn: "github", Dir: evidence.ToServer, Raw: []byte(`{"id":"list","method":"tools/list"}`)},
		{Server: "github", Conn: "github", Dir: evidence.ToClient, Raw: []byte(`{"jsonrpc":"2.0","id":"list","result":{"tools":[` + tools + `]}}`)},
	}
}

const (
	readTool  = `{"name":"get_issue","inputSchema":{"type":"object","properties":{"number":{"type":"integer"}}},"annotations":{"readOnlyHint":true}}`
	writeTool = `{"name":"close_issue","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}`
	mutedTool = `{"name":"sync","inputSchema":{"type":"object"}}`
)

// Evals that use only the keys server, expect_tools_used and max_tool_errors.
func TestComplianceInBrief(t *testing.T) {
	late := evidence.Frame{Server: "web", Conn: "web", Dir: evidence.ToServer, Raw: []byte(`{"method":"notifications/cancelled","params":{"requestId":9}}`)}
	s := trialOf(
		call("github", "1", "get_issue", `{}`, toolError), call("github", "2", "get_issue", `{}`, answered),
		call("github", "3", "search", `{}`, refused), call("web", "1", "fetch", `{}`, ""),
		call("web", "9", "slow", `{}`, ""), []evidence.Frame{late},
	)
	gap := s
	gap.frames = append(concat(s.frames), evidence.Frame{Server: "web", Conn: "web", Dir: evidence.ToServer, Raw: []byte("{")})
	junk := s
	junk.frames = append(concat(s.frames), evidence.Frame{Server: "web", Conn: "web", Dir: evidence.ToClient, Raw: []byte("[DONE]")})
	twoThirds := 2.0 / 3
	run(t, "mcp_compliance", []check{
		{"used", s, `{"expect_tools_used":["/get_.*/"]}`, pass, 1, ""},
		{"a call stands for one entry", s, `{"expect_tools_used":["get_issue","/get_.*/"]}`, fail, twoThirds, `A call stands for one entry: call 2 for /get_.*/.`},
		{"failed", s, `{"expect_tools_used":["search"]}`, fail, 0, `Nearest is call 3 ("search" of github), which ended as protocol_error -32602.`},
		{"failed as expected", s, `{"expect_tools_used":["search"],"errors":{"expected":[{"tool":"search","code":-32602}]}}`, pass, 1, ""},
		{"failed otherwise", s, `{"expect_tools_used":["search"],"errors":{"expected":[{"tool":"search","code":-32000}]}}`, fail, 0, ""},
		{"cancelled", s, `{"expect_tools_used":["slow"]}`, fail, 0, "ended as cancelled"},
		{"not used", s, `{"server":["github"],"expect_tools_used":["fetch","get_issue"]}`, fail, twoThirds, `Expected a successful call of "fetch"; there was none. Called: "get_issue", "search".`},
		{"a whole name", s, `{"expect_tools_used":["/get/"]}`, fail, 0, ""},
		{"its exact case", s, `{"expect_tools_used":["Get_Issue"]}`, fail, 0, `Nearest is call 1 ("get_issue" of github), which is a tool of another name.`},
		{"errors within", s, `{"max_tool_errors":3}`, pass, 1, ""},
		{"errors over", s, `{"max_tool_errors":2}`, fail, twoThirds, "Expected at most 2 calls to fail; found 3: call 1"},
		{"no error allowed", s, `{"max_tool_errors":0}`, fail, 0, ""},
		{"errors of one server", s, `{"server":"web","max_tool_errors":0}`, fail, 0, `call 4 ("fetch" of web: transport_error)`},
		{"no call at all", scene{trial: s.trial}, `{"expect_tools_used":["x"]}`, fail, 0, "No tool was called at all."},
		{"no such server", s, `{"server":"git","max_tool_errors":0}`, cannotSay, 0, `no server "git"`},
		{"no such server of an entry", s, `{"expect_tools_used":[{"tool":"x","server":"git"}]}`, cannotSay, 0, `no server "git"`},
		{"a gap", gap, `{"max_tool_errors":9}`, cannotSay, 0, "frame 10 of web"},
		{"junk of a server is none", junk, `{"max_tool_errors":9}`, pass, 1, ""},
		{"a gap elsewhere", gap, `{"server":"github","max_tool_errors":9}`, pass, 1, ""},
	})
}

func TestComplianceModes(t *testing.T) {
	reads := trialOf(listing(readTool+","+writeTool+","+mutedTool), ok("1", "get_issue", `{"number":1}`), ok("2", "close_issue", `{"number":1}`))
	twice := trialOf(concat(reads.frames, ok("3", "close_issue", `{"number":2}`)))
	muted := trialOf(concat(reads.frames, ok("3", "sync", `{}`)))
	failed := trialOf(concat(reads.frames, call("github", "3", "close_issue", `{"number":2}`, toolError)))
	gone := trialOf(concat(reads.frames, call("github", "3", "close_issue", `{"number":2}`, ""), []evidence.Frame{{
		Server: "github", Conn: "github", Dir: evidence.ToServer, Raw: []byte(`{"method":"notifications/cancelled","params":{"requestId":3}}`),
	}}))
	left := trialOf(gone.frames)
	left.frames[len(left.frames)-1].Synthetic = evidence.SyntheticAbandoned
	closed := `"expect_tools_used":["close_issue"]`
	half := 2.0 / 3 // F1 of 1 found and 1 too many
	run(t, "mcp_compliance", []check{
		{"effects, reads", reads, `{"match":"effects",` + closed + `}`, pass, 1, ""},
		{"effects, a write", twice, `{"match":"effects",` + closed + `}`, fail, half, `Expected no other call that writes; found call 3 ("close_issue" of github: ok).`},
		{"effects, a write given up", gone, `{"match":"effects",` + closed + `}`, fail, half, `Expected no other call that writes; found call 3 ("close_issue" of github: cancelled).`},
		{"effects, a write left", left, `{"match":"effects",` + closed + `}`, fail, half, `Expected no other call that writes; found call 3 ("close_issue" of github: abandoned).`},
		{"no success by leaving", left, `{"expect_tools_used":[{"tool":"close_issue","count":{"min":2}}]}`, fail, half, "Expected 2 successful calls"},
		{"no error by leaving", left, `{"max_tool_errors":0,"expect_tools_used":["close_issue"]}`, pass, 1, ""},
		{"superset, a write given up", gone, `{` + closed + `}`, pass, 1, ""},
		{"a bound, and a call given up", gone, `{"expect_tools_used":[{"tool":"close_issue","count":{"max":1}}]}`, fail, 0, "Gate failed: Expected at most 1 call"},
		{"no success by giving up", gone, `{"expect_tools_used":[{"tool":"close_issue","count":{"min":2}}]}`, fail, half, "Expected 2 successful calls"},
		{"effects, a write that is said to read", twice, `{"match":"effects",` + closed + `,"read_only":["/close_.*/"]}`, pass, 1, ""},
		{"effects, nobody says", muted, `{"match":"effects",` + closed + `}`, fail, half, `Server github does not say whether "sync" only reads; if it does, name it in read_only.`},
		{"effects, somebody says", muted, `{"match":"effects",` + closed + `,"read_only":["sync"]}`, pass, 1, "holds."},
		{"effects, a write that failed", failed, `{"match":"effects",` + closed + `}`, pass, 1, ""},
		{"effects alone", reads, `{"match":"effects"}`, fail, 0, "found call 2"},
		{"superset", twice, `{"match":"superset",` + closed + `}`, pass, 1, ""},
		{"unordered", reads, `{"match":"unordered","expect_tools_used":["close_issue","get_issue"]}`, pass, 1, ""},
		{"unordered, another", reads, `{"match":"unordered",` + closed + `}`, fail, half, "Expected no other call; found call 1"},
		{"unordered, a failed one", failed, `{"match":"unordered","expect_tools_used":["close_issue","get_issue"]}`, pass, 1, ""},
		{"in order", twice, `{"match":"in_order","expect_tools_used":["get_issue","close_issue"]}`, pass, 1, ""},
		{"not in order", reads, `{"match":"in_order","expect_tools_used":["close_issue","get_issue"]}`, fail, half, "which is not in its place"},
		{"exact", reads, `{"match":"exact","expect_tools_used":["get_issue","close_issue"]}`, pass, 1, ""},
		{"exact, another", twice, `{"match":"exact","expect_tools_used":["get_issue","close_issue"]}`, fail, 0.8, "found call 3"},
		{"subset", reads, `{"match":"subset","expect_tools_used":["get_issue","close_issue","sync"]}`, pass, 1, ""},
		{"subset, none", trialOf(), `{"match":"subset","expect_tools_used":["get_issue"]}`, pass, 1, ""},
		{"subset, another", muted, `{"match":"subset","expect_tools_used":["get_issue","close_issue"]}`, fail, 0.8, "found call 3"},
		{"unordered with nothing expected", trialOf(), `{"match":"unordered"}`, pass, 1, ""},
		{"unordered with nothing expected, a call", reads, `{"match":"unordered"}`, fail, 0, ""},
		{"an expected error is not too much", failed, `{"match":"exact","expect_tools_used":["get_issue","close_issue"],"errors":{"expected":[{"tool":"close_issue"}]}}`, pass, 1, ""},
		{"nor does it stand where a success can", trialOf(call("github", "1", "get_issue", "{}", refused), ok("2", "get_issue", "{}")),
			`{"match":"exact","expect_tools_used":["get_issue"],"errors":{"expected":[{"tool":"get_issue"}]}}`, pass, 1, ""},
	})
}

// A call that may have been made counts as made, whatever kept its answer away, and as no success.
func TestComplianceWithoutAnAnswer(t *testing.T) {
	listed := listing(readTool + "," + writeTool + "," + mutedTool)
	timeout := func(frames []evidence.Frame) []evidence.Frame {
		frames[1].Synthetic = evidence.SyntheticTimeout
		return frames
	}
	cancel := func(id string) []evidence.Frame {
		return []evidence.Frame{{Server: "github", Conn: "github", Dir: evidence.ToServer, Raw: []byte(`{"method":"notifications/cancelled","params":{"requestId":` + id + `}}`)}}
	}
	for how, once := range map[string]func(id, tool string) []evidence.Frame{
		"dead": func(id, tool string) []evidence.Frame { return call("github", id, tool, "{}", "") },
		"slow": func(id, tool string) []evidence.Frame { return timeout(call("github", id, tool, "{}", refused)) },
		"left": func(id, tool string) []evidence.Frame {
			return concat(call("github", id, tool, "{}", ""), cancel(id))
		},
		"torn": func(id, tool string) []evidence.Frame { return call("github", id, tool, "{}", `"result":7`) },
	} {
		write, read := once("1", "close_issue"), once("1", "get_issue")
		one := trialOf(listed, write)
		again := trialOf(listed, write, ok("2", "close_issue", "{}"))
		muted := trialOf(listed, once("1", "sync"))
		reads := trialOf(listed, read, ok("2", "get_issue", "{}"))
		early := trialOf(listed, write, ok("2", "get_issue", "{}"))
		reversed := trialOf(listed, ok("2", "get_issue", "{}"), write)
		checked := trialOf(listed, read, ok("2", "close_issue", "{}"))
		optional := `"expect_tools_used":[{"tool":"close_issue","count":{"min":0,"max":1}}]`
		closed := `"expect_tools_used":["close_issue"]`
		t.Run(how, func(t *testing.T) {
			run(t, "mcp_compliance", []check{
				{"effects", one, `{"match":"effects"}`, fail, 0, "It has no answer, so it counts as made."},
				{"effects, no hint", muted, `{"match":"effects"}`, fail, 0, ""},
				{"effects, a reader by name", muted, `{"match":"effects","read_only":["sync"]}`, pass, 1, ""},
				{"effects, a read", reads, `{"match":"effects"}`, pass, 1, ""},
				{"effects, again", again, `{"match":"effects",` + closed + `}`, fail, 2.0 / 3, "found call 1"},
				{"effects, no success", one, `{"match":"effects",` + closed + `}`, fail, 0, "Nearest is call 1"},
				{"effects, in its place", one, `{"match":"effects",` + optional + `}`, pass, 1, ""},
				{"effects, twice in one place", again, `{"match":"effects",` + optional + `}`, fail, 0, "Gate failed: Expected at most 1 call"},
				{"effects, as expected", one, `{"match":"effects","errors":{"expected":[{"tool":"close_issue"}]}}`, fail, 0, ""},
				{"subset", one, `{"match":"subset",` + closed + `}`, pass, 1, ""},
				{"subset, other arguments", one, `{"match":"subset","expect_tools_used":[{"tool":"close_issue","args":{"values":{"number":1}}}]}`, fail, 0, ""},
				{"unordered", again, `{"match":"unordered",` + closed + `}`, fail, 2.0 / 3, ""},
				{"exact", again, `{"match":"exact",` + closed + `}`, fail, 2.0 / 3, ""},
				{"exact, in its place", early, `{"match":"exact","expect_tools_used":[{"tool":"close_issue","count":{"min":0}},"get_issue"]}`, pass, 1, ""},
				{"exact, not in its place", reversed, `{"match":"exact","expect_tools_used":[{"tool":"close_issue","count":{"min":0}},"get_issue"]}`, fail, 2.0 / 3, ""},
				{"superset", again, `{` + closed + `}`, pass, 1, ""},
				{"count", again, `{"expect_tools_used":[{"tool":"close_issue","count":{"max":1}}]}`, fail, 0, "Gate failed: Expected at most 1 call"},
				{"before", early, `{"before":[["get_issue","close_issue"]]}`, fail, 0, "found call 1"},
				{"before, no success", checked, `{"before":[["get_issue","close_issue"]]}`, fail, 0, "never succeeded"},
				{"again", again, `{"max_duplicate_calls":0}`, fail, 0, "found 1: call 2 (as call 1"},
			})
			if how != "left" { // a server that does not answer a read has done nothing
				run(t, "mcp_compliance", []check{
					{"a read again", reads, `{"max_duplicate_calls":0}`, pass, 1, ""},
					{"exact, a read again", reads, `{"match":"exact","expect_tools_used":["get_issue"]}`, pass, 1, ""},
				})
			}
		})
	}
}

// A score meets a threshold that it is equal to, whatever its sum loses by rounding.
func TestComplianceThresholdIsMet(t *testing.T) {
	var frames []evidence.Frame
	for i := range 20 { // 7 as expected, 3 others, 10 that fail
		tool, answer := "echo", answered
		switch {
		case i >= 10:
			tool, answer = "err", toolError
		case i >= 7:
			tool = "other"
		}
		frames = append(frames, call("github", fmt.Sprint(i), tool, fmt.Sprintf(`{"i":%d}`, i), answer)...)
	}
	var entries []string
	for i := range 10 {
		entries = append(entries, fmt.Sprintf(`{"tool":%q,"args":{"values":{"i":%d}}}`, map[bool]string{true: "echo", false: "get"}[i < 7], i))
	}
	config := `"match":"unordered","max_tool_errors":7,"expect_tools_used":[` + strings.Join(entries, ",") + `]`
	run(t, "mcp_compliance", []check{
		{"three parts of 0.7", trialOf(frames), `{"threshold":0.7,` + config + `}`, pass, 0.7, ""},
		{"a little more", trialOf(frames), `{"threshold":0.70001,` + config + `}`, fail, 0.7, ""},
	})
}

// Parallel calls have no order: any of them may come first.
func TestComplianceAtOnce(t *testing.T) {
	a, b := call("github", "1", "a", "{}", answered), call("github", "2", "b", "{}", answered)
	after := ok("3", "a", "{}")
	config := `{"match":"exact","expect_tools_used":["a","b","a"]}`
	run(t, "mcp_compliance", []check{
		{"a before b", trialOf([]evidence.Frame{a[0], b[0], a[1], b[1]}, after), config, pass, 1, ""},
		{"b before a", trialOf([]evidence.Frame{b[0], a[0], a[1], b[1]}, after), config, pass, 1, ""},
		{"b after a", trialOf(a, b, after), config, pass, 1, ""},
		{"a after b", trialOf(b, a, after), config, fail, 2.0 / 3, "not in its place"},
	})
}

func TestComplianceArguments(t *testing.T) {
	s := trialOf(ok("1", "search", `{"owner":"octo","repo":"hello-world","q":"is:open label:bug","page":2,"labels":["b","a"]}`))
	with := func(values string) string {
		return `{"expect_tools_used":[{"tool":"search","args":{"values":{` + values + `}}}]}`
	}
	run(t, "mcp_compliance", []check{
		{"all", s, with(`"owner":"octo","repo":{"any_of":["hello","hello-world"]},"q":{"regex":"label:bug"},"page":{"range":[1,9]},"labels":{"set":["a","b"]},"due":{"absent_or":"2026-01-01"}`), pass, 1, "All 2 checks hold."},
		{"half of them", s, with(`"owner":"octo","page":"2"`), fail, 0.75, "search page: 2, expected \"2\" (call 1).\nThe score is 0.75 (selection 1.00, params 0.50); 1.00 is needed to pass."},
		{"half of them, for half of it", s, `{"expect_tools_used":[{"tool":"search","args":{"values":{"owner":"octo","page":"2"}}}],"threshold":0.75}`, pass, 0.75, `search page: 2, expected "2" (call 1).`},
		{"others forbidden", s, `{"expect_tools_used":[{"tool":"search","args":{"match":"exact","values":{"owner":"octo"}}}]}`, fail, 0.6, ""},
		{"none at all", s, `{"expect_tools_used":[{"tool":"search","args":{"match":"ignore"}}]}`, pass, 1, "The check holds."},
		{"not called", s, `{"expect_tools_used":[{"tool":"find","args":{"values":{"a":1}}}]}`, fail, 0, "selection 0.00, params 0.00"},
	})
}

func TestComplianceCounts(t *testing.T) {
	three := trialOf(ok("1", "get", `{"n":1}`), ok("2", "get", `{"n":2}`), ok("3", "get", `{"n":3}`), call("web", "1", "find", "{}", answered))
	run(t, "mcp_compliance", []check{
		{"as many", three, `{"expect_tools_used":[{"tool":"get","count":{"min":3,"max":3}}]}`, pass, 1, ""},
		{"too few", three, `{"expect_tools_used":[{"tool":"get","count":{"min":5}}]}`, fail, 0.75, `Expected 5 successful calls of "get"; found 3.`},
		{"too many, whatever the score", three, `{"expect_tools_used":[{"tool":"get","count":{"max":2}}],"threshold":0}`, fail, 0, `Gate failed: Expected at most 2 calls of "get"; found 3: call 1`},
		{"without arguments that are meant", three, `{"expect_tools_used":[{"tool":"get","count":{"max":2},"args":{"values":{"n":{"range":[2,9]}}}}]}`, pass, 1, ""},
		{"as many as there are", three, `{"server":"github","match":"exact","expect_tools_used":[{"tool":"get","count":{"min":1}}]}`, pass, 1, ""},
		{"none need be", three, `{"expect_tools_used":[{"tool":"put","count":{"min":0,"max":1}}]}`, pass, 1, ""},
		{"any of", three, `{"server":"github","expect_tools_used":[{"tool":"search","any_of":[{"server":"web","tool":"find"}]}]}`, pass, 1, ""},
		{"of another server", three, `{"expect_tools_used":[{"tool":"get","server":"web"}]}`, fail, 0, "which is of another server"},
	})
}
