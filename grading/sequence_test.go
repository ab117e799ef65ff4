package grading_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"pgregory.net/rapid"
)

// uses returns a transcript of tool uses by name, without arguments.
func uses(names ...string) string {
	var lines strings.Builder
	for i, name := range names {
		fmt.Fprintf(&lines, "{\"type\":\"tool.execution_start\",\"tool_name\":%q,\"tool_call_id\":\"%d\",\"arguments\":{}}\n", name, i)
	}
	return lines.String()
}

func TestActionSequence(t *testing.T) {
	builtin := scene{trial: evidence.Trial{Executor: "script"}, transcript: uses("read_file", "edit_file", "run_command", "read_file")}
	none := scene{trial: evidence.Trial{Executor: "mock"}}
	torn := scene{trial: evidence.Trial{Executor: "script"}, transcript: "{"}
	unseen := scene{trial: evidence.Trial{Executor: "mock"}, noFrames: true}
	config := func(mode, actions string) string {
		return `{"matching_mode":"` + mode + `","expected_actions":` + actions + `}`
	}
	run(t, "action_sequence", []check{
		{"exactly", builtin, config("exact_match", `["read_file","edit_file","run_command","read_file"]`), pass, 1, ""},
		{"another order", builtin, config("exact_match", `["read_file","run_command","edit_file","read_file"]`), fail, 1,
			`in this order; after "read_file", number 1, "run_command" does not follow. Found "read_file", "edit_file", "run_command", "read_file".`},
		{"more than that", builtin, config("exact_match", `["read_file","edit_file"]`), fail, 2.0 / 3, "Expected exactly 2"},
		{"in order", builtin, config("in_order_match", `["edit_file","read_file"]`), pass, 2.0 / 3, ""},
		{"not in order", builtin, config("in_order_match", `["run_command","edit_file"]`), fail, 2.0 / 3, `after "run_command", number 1, "edit_file" does not follow`},
		{"not even the first", builtin, config("in_order_match", `["grep"]`), fail, 0, `it does not begin with "`},
		{"in any order", builtin, config("any_order_match", `["run_command","read_file","read_file"]`), pass, 6.0 / 7, ""},
		{"as often as listed", builtin, config("any_order_match", `["edit_file","edit_file"]`), fail, 1.0 / 3, `missing: "edit_file"`},
		{"nothing was used", none, config("in_order_match", `["read_file"]`), fail, 0, "Found none."},
		{"a torn transcript", torn, config("any_order_match", `["read_file"]`), cannotSay, 0, "transcript.jsonl line 1"},
		{"no frames", unseen, config("any_order_match", `["read_file"]`), cannotSay, 0, "frames"},
	})
}

func TestActionSequenceOfServers(t *testing.T) {
	frames := concat(call("a", "1", "x", `{}`, answered), call("b", "1", "x", `{}`, toolError), call("a", "2", "y/z", `{}`, answered))
	wire := scene{trial: evidence.Trial{Executor: "command", Servers: servers("a", "b")}, frames: frames}
	gap := wire
	gap.frames = append(concat(frames), evidence.Frame{Server: "b", Conn: "b", Dir: evidence.ToServer, Raw: []byte("{")})
	config := func(mode, actions string) string {
		return `{"matching_mode":"` + mode + `","expected_actions":` + actions + `}`
	}
	run(t, "action_sequence", []check{
		{"by server", wire, config("exact_match", `["mcp:a/x","mcp:b/x","mcp:a/y/z"]`), pass, 1, ""},
		{"of the wrong server", wire, config("exact_match", `["mcp:b/x","mcp:a/x","mcp:a/y/z"]`), fail, 1, `it does not begin with "`},
		{"as agents write them", wire, config("exact_match", `["a-x","x","mcp:a/y/z"]`), pass, 1, ""},
		// "x" could take the first call as well, and must leave it to mcp:a/x.
		{"a name that fits two leaves one", wire, config("any_order_match", `["x","mcp:a/x"]`), pass, 0.8, ""},
		{"no such server", wire, config("any_order_match", `["mcp:c/x"]`), cannotSay, 0, `no server "c"`},
		{"a gap of any server", gap, config("any_order_match", `["mcp:a/x"]`), cannotSay, 0, "of b"},
		{"a tool that may be a builtin one", wire, config("any_order_match", `["x","read_file"]`), cannotSay, 0, "gives no transcript"},
		{"a missing tool that is none", wire, config("any_order_match", `["mcp:b/y"]`), fail, 0, `missing: "mcp:b/y"`},
	})
}

// How calls on the wire and builtin uses in the transcript mix.
func TestActionSequenceOfBoth(t *testing.T) {
	mixed := func(transcript []string, frames ...[]evidence.Frame) scene {
		return scene{
			trial:  evidence.Trial{Executor: "script", Servers: servers("s", "r")},
			frames: concat(frames...), transcript: uses(transcript...),
		}
	}
	x, y := call("s", "1", "x", `{}`, answered), call("s", "2", "y", `{}`, answered)
	again := call("s", "3", "x", `{}`, answered)
	config := func(mode string, actions ...string) string {
		return fmt.Sprintf(`{"matching_mode":%q,"expected_actions":["%s"]}`, mode, strings.Join(actions, `","`))
	}
	reported := mixed([]string{"read", "mcp__s__x", "edit", "s-y"}, x, y)
	untold := mixed([]string{"read", "edit"}, x)
	between := mixed([]string{"read", "mcp__s__x", "edit", "s-y"}, x, call("r", "9", "x", `{}`, answered), y)
	contradicts := mixed([]string{"mcp__s__y", "read", "mcp__s__x"}, x, y)
	alike := mixed([]string{"mcp__s__x", "read", "mcp__s__x"}, x, again)
	oneOfTwo := mixed([]string{"read", "mcp__s__x"}, x, again)
	run(t, "action_sequence", []check{
		{"told where they are", reported, config("exact_match", "read", "mcp:s/x", "edit", "mcp:s/y"), pass, 1, ""},
		{"told where they are not", reported, config("exact_match", "mcp:s/x", "read", "edit", "mcp:s/y"), fail, 1, ""},
		{"in order", reported, config("in_order_match", "mcp:s/x", "edit"), pass, 2.0 / 3, ""},
		{"against it", reported, config("in_order_match", "edit", "mcp:s/x"), fail, 2.0 / 3, ""},
		{"not reported", untold, config("exact_match", "read", "mcp:s/x", "edit"), cannotSay, 0,
			`whether "read", "mcp:s/x", "edit" came in this order is not known: the transcript does not show where call 1 ("x" of s: ok) belongs`},
		{"not told, and not asked", untold, config("in_order_match", "read", "edit"), pass, 0.8, ""},
		{"not told, and wrong in any order", untold, config("in_order_match", "edit", "read"), fail, 0.8, ""},
		{"not told, and any order does", untold, config("any_order_match", "mcp:s/x", "edit", "read"), pass, 1, ""},
		{"between two that are told", between, config("in_order_match", "read", "mcp:r/x", "mcp:s/y"), pass, 0.75, ""},
		{"but where between them", between, config("in_order_match", "edit", "mcp:r/x"), cannotSay, 0, `call 2 ("x" of r: ok)`},
		{"a transcript that contradicts the wire", contradicts, config("in_order_match", "read", "mcp:s/x"), cannotSay, 0, "is not known"},
		{"the wire is still known", contradicts, config("in_order_match", "mcp:s/x", "mcp:s/y"), pass, 0.8, ""},
		{"calls alike, all told", alike, config("exact_match", "mcp:s/x", "read", "mcp:s/x"), pass, 1, ""},
		{"calls alike, one told", oneOfTwo, config("in_order_match", "mcp:s/x", "read"), cannotSay, 0, "is not known"},
		{"whichever it is, the last comes last", oneOfTwo, config("in_order_match", "mcp:s/x", "mcp:s/x"), pass, 0.8, ""},
	})
}

// Parallel calls that are not in the transcript may have any order, so neither the verdict
// nor the score depends on it.
func TestActionSequenceScoreIsOfNoOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 6).Draw(r, "used")
		expected := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 5).Draw(r, "expected")
		mode := rapid.SampledFrom([]string{"exact_match", "in_order_match", "any_order_match"}).Draw(r, "mode")
		score := func(names, expected []string) float64 {
			s := scene{trial: evidence.Trial{Executor: "script"}, transcript: uses(names...) + "\n"}
			v := judge(t, s, "action_sequence", fmt.Sprintf(`{"matching_mode":%q,"expected_actions":["%s"]}`, mode, strings.Join(expected, `","`)))
			if holds := v.Result == pass; holds && v.Score == 0 {
				r.Fatalf("%+v", v)
			}
			return v.Score
		}
		shuffledNames, shuffled := rapid.Permutation(names).Draw(r, "used otherwise"), rapid.Permutation(expected).Draw(r, "expected otherwise")
		if one, other := score(names, expected), score(shuffledNames, shuffled); one != other {
			r.Fatalf("%v and %v", one, other)
		}
	})
}

func TestSkillInvocation(t *testing.T) {
	skill := func(names ...string) scene {
		var lines strings.Builder
		lines.WriteString(uses("read_file"))
		for i, name := range names {
			fmt.Fprintf(&lines, "{\"type\":\"tool.execution_start\",\"tool_name\":\"skill\",\"tool_call_id\":\"s%d\",\"arguments\":{\"skill\":%q}}\n", i, name)
		}
		return scene{trial: evidence.Trial{Executor: "script"}, transcript: lines.String()}
	}
	two := skill("plan", "deploy")
	three := skill("plan", "lint", "deploy")
	command := scene{trial: evidence.Trial{Executor: "command"}}
	mock := scene{trial: evidence.Trial{Executor: "mock"}}
	run(t, "skill_invocation", []check{
		{"exactly", two, `{"mode":"exact_match","required_skills":["plan","deploy"]}`, pass, 1, ""},
		{"one more", three, `{"mode":"exact_match","required_skills":["plan","deploy"]}`, fail, 0.8, "Expected exactly 2"},
		{"in order", three, `{"mode":"in_order","required_skills":["plan","deploy"]}`, pass, 0.8, ""},
		{"not in order", three, `{"mode":"in_order","required_skills":["deploy","plan"]}`, fail, 0.8, `"plan" does not follow`},
		{"in any order", three, `{"mode":"any_order","required_skills":["deploy","plan"]}`, pass, 0.8, ""},
		{"an extra one that may be", three, `{"mode":"any_order","required_skills":["deploy","plan"],"allow_extra":true}`, pass, 0.8, ""},
		{"an extra one that may not", three, `{"mode":"any_order","required_skills":["deploy","plan"],"allow_extra":false}`, fail, 0.6400000000000001, "beyond the 2 required; found 3"},
		{"no extra one", two, `{"mode":"any_order","required_skills":["deploy","plan"],"allow_extra":false}`, pass, 1, ""},
		{"forbidden", three, `{"forbidden_skills":["lint","push"]}`, fail, 0, `Expected skill "lint" not to be invoked; it was.`},
		{"forbidden beside required", three, `{"mode":"in_order","required_skills":["plan"],"forbidden_skills":["lint"]}`, fail, 0, ""},
		{"an invocation that failed", scene{transcript: `{"type":"tool.execution_start","tool_name":"skill","tool_call_id":"1","arguments":{"skill":"plan"}}
{"type":"tool.execution_complete","tool_call_id":"1","success":false,"tool_result":"there is no such skill"}
`}, `{"mode":"exact_match","required_skills":["plan"]}`, fail, 0, "found 0"},
		{"not invoked", two, `{"forbidden_skills":["lint"]}`, pass, 1, ""},
		{"an agent without tools", mock, `{"mode":"any_order","required_skills":["plan"]}`, fail, 0, `missing: "plan"`},
		{"an executor that gives no transcript", command, `{"forbidden_skills":["lint"]}`, cannotSay, 0, "gives no transcript"},
	})
}

func TestToolCalls(t *testing.T) {
	s := scene{
		trial:      evidence.Trial{Executor: "script", Servers: servers("github")},
		frames:     concat(call("github", "1", "get_issue", `{"number":7,"repo":"hello"}`, answered), call("github", "2", "get_issue", `{"number":8}`, toolError)),
		transcript: uses("read_file"),
	}
	command := s
	command.transcript, command.trial.Executor = "", "command"
	run(t, "tool_calls", []check{
		{"required and forbidden", s, `{"required_tools":["read_file","get_issue","github-get_issue"],"forbidden_tools":["get","delete"]}`, pass, 1, "All 5"},
		{"the other way", s, `{"required_tools":["delete","read_file"],"forbidden_tools":["get_issue"]}`, fail, 1.0 / 3, `Expected tool "delete" to be used; it was not.`},
		{"as many", s, `{"min_calls":3,"max_calls":3}`, pass, 1, ""},
		{"too few and too many", s, `{"min_calls":4}`, fail, 0, "at least 4 tool calls; found 3"},
		{"too many", s, `{"max_calls":0}`, fail, 0, `at most 0 tool calls; found 3: call 1 ("get_issue" of github: ok)`},
		{"none were made", scene{trial: evidence.Trial{Executor: "mock"}}, `{"max_calls":0}`, pass, 1, ""},
		{"expected", s, `{"expect":[{"tool":"^GET","args":{"number":{"range":{"gte":8}}}},{"tool":"github-get"},{"tool":"read"}]}`, pass, 1, ""},
		{"not as expected", s, `{"expect":[{"tool":"issue","args":{"repo":{"equals":"bye"}}}]}`, fail, 0, `Nearest: call 1 ("get_issue" of github: ok), whose repo: "hello", expected "bye"`},
		{"no transcript, no builtin tools", command, `{"max_calls":2,"forbidden_tools":["read_file"]}`, pass, 1, ""},
		{"nor is one known not to be used", command, `{"required_tools":["read_file"]}`, cannotSay, 0, "gives no transcript"},
	})
}
