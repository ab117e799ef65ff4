package grading_test

import (
	"encoding/json"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

func TestToolConstraint(t *testing.T) {
	s := scene{
		trial:  evidence.Trial{Executor: "script", Servers: servers("github", "web")},
		frames: concat(call("github", "1", "get_issue", `{"path":"a/b","command":["rm","-r"]}`, answered), call("web", "1", "fetch", `{}`, toolError)),
		transcript: `{"type":"tool.execution_start","tool_name":"mcp__github__get_issue","tool_call_id":"1"}
{"type":"tool.execution_start","tool_name":"run_command","tool_call_id":"2","arguments":{"command":"ls -l"}}
{"type":"tool.execution_start","tool_name":"skill","tool_call_id":"3","arguments":{"skill":"review"}}
`,
	}
	bare := s
	bare.transcript = ""
	command := bare
	command.trial.Executor = "command"
	mock := scene{trial: evidence.Trial{Executor: "mock"}}
	gap := s
	gap.frames = append(concat(s.frames), evidence.Frame{Server: "web", Conn: "web", Dir: evidence.ToServer, Raw: []byte("{")})
	run(t, "tool_constraint", []check{
		{"part of a name in any case", s, `{"expect_tools":[{"tool":"ISSUE"},{"tool":"^run_"}]}`, pass, 1, ""},
		{"with the server's name", s, `{"expect_tools":[{"tool":"^github-get_issue$"}]}`, pass, 1, ""},
		{"none", s, `{"expect_tools":[{"tool":"delete"}]}`, fail, 0, `Expected a call of /delete/; there was none. Used: "fetch", "get_issue", "run_command", "skill".`},
		{"rejected", s, `{"reject_tools":[{"tool":"/get.*/","source":"mcp:github"}]}`, fail, 0, `call 1 ("get_issue" of github: ok)`},
		{"of another server", s, `{"reject_tools":[{"tool":"get_issue","source":"mcp:web"}]}`, pass, 1, ""},
		{"the exact name", s, `{"expect_tools":[{"tool":"get_issue","source":"mcp:github"}],"reject_tools":[{"tool":"get","source":"mcp:github"},{"tool":"Get_Issue","source":"mcp:github"},{"tool":"github-get_issue","source":"mcp:github"},{"tool":"/get/","source":"mcp:github"}]}`, pass, 1, "All 5"},
		{"of any server", s, `{"reject_tools":[{"tool":"run_command","source":"mcp:*"}],"expect_tools":[{"tool":"fetch","source":"mcp:*"}]}`, pass, 1, ""},
		{"builtin", s, `{"expect_tools":[{"tool":"run_command","source":"builtin"}],"reject_tools":[{"tool":"/.*get.*/","source":"builtin"}]}`, pass, 1, ""},
		{"skill", s, `{"expect_tools":[{"tool":"skill","source":"skill","skill_pattern":"^rev"}]}`, pass, 1, ""},
		{"arguments", s, `{"expect_tools":[{"tool":"get","path_pattern":"^a/"},{"tool":"run","command_pattern":"LS"}]}`, pass, 1, ""},
		{"an argument that is no string", s, `{"reject_tools":[{"tool":"get","command_pattern":"rm"}]}`, fail, 0, "with command /rm/"},
		{"an argument that is not there", s, `{"expect_tools":[{"tool":"fetch","path_pattern":"a"}]}`, fail, 0, ""},
		{"arguments that are no object", scene{transcript: `{"type":"tool.execution_start","tool_name":"skill","tool_call_id":"1","arguments":null}` + "\n"}, `{"reject_tools":[{"tool":"skill","skill_pattern":".*"}]}`, fail, 0, `"skill" (skill)`},
		{"rejected of no such server", s, `{"reject_tools":[{"tool":"get","source":"mcp:git"}]}`, pass, 1, `The check holds. The trial has no server "git", so the agent could not call it.`},
		{"allowed of no such server", s, `{"allow_only":[{"tool":"get","source":"mcp:git"}]}`, pass, 1, `no server "git"`},
		{"expected of no such server", s, `{"expect_tools":[{"tool":"get","source":"mcp:git"}],"reject_tools":[{"tool":"put","source":"mcp:git"}]}`, cannotSay, 0, `no server "git"`},
		{"a gap of the server", gap, `{"expect_tools":[{"tool":"fetch","source":"mcp:web"}]}`, cannotSay, 0, "frame 5 of web"},
		{"a gap of another server", gap, `{"expect_tools":[{"tool":"get_issue","source":"mcp:github"}]}`, pass, 1, ""},
		{"a gap of any server", gap, `{"expect_tools":[{"tool":"get"}]}`, cannotSay, 0, ""},
		{"no transcript where there must be one", bare, `{"expect_tools":[{"tool":"get"}]}`, cannotSay, 0, "transcript"},
		{"no need of one", bare, `{"expect_tools":[{"tool":"get_issue","source":"mcp:*"}]}`, pass, 1, ""},
		{"an executor that gives none", command, `{"expect_tools":[{"tool":"get"}]}`, pass, 1, ""},
		{"nor knows of builtin tools", command, `{"reject_tools":[{"tool":"get","source":"builtin"}]}`, cannotSay, 0, "gives no transcript"},
		{"one that uses none", mock, `{"reject_tools":[{"tool":"get","source":"builtin"}]}`, pass, 1, ""},
	})
}

func TestToolConstraintArguments(t *testing.T) {
	s := scene{
		trial: evidence.Trial{Executor: "command", Servers: servers("github")},
		frames: concat(
			call("github", "1", "search", `{"q":"label:bug is:open","page":2,"id":9007199254740993,"labels":["a","b"],"deep":{"x":1}}`, answered),
			call("github", "2", "search", `{"q":"other"}`, answered),
		),
	}
	expect := func(args string) string {
		return `{"expect_tools":[{"tool":"search","source":"mcp:github","args":` + args + `}]}`
	}
	run(t, "tool_constraint", []check{
		{"equals", s, expect(`{"page":{"equals":2.0},"q":{"equals":"label:bug is:open"}}`), pass, 1, ""},
		{"every digit", s, expect(`{"id":{"equals":9007199254740992}}`), fail, 0, "9007199254740993"},
		{"a value as it is", s, expect(`{"page":2,"deep":{"x":1}}`), pass, 1, ""},
		{"regex", s, expect(`{"q":{"regex":"^label:[a-z]+"},"page":{"regex":"^2$"}}`), pass, 1, ""},
		{"regex is of this case", s, expect(`{"q":{"regex":"LABEL"}}`), fail, 0, `whose q: "label:bug is:open", expected text that matches /LABEL/`},
		{"contains", s, expect(`{"q":{"contains":"bug is"},"labels":{"contains":"a"}}`), pass, 1, ""},
		{"contains not", s, expect(`{"q":{"contains":"closed"}}`), fail, 0, `whose q: "label:bug is:open", expected text that contains "closed"`},
		{"range", s, expect(`{"page":{"range":{"gte":2,"lt":3}}}`), pass, 1, ""},
		{"range to the last digit", s, expect(`{"id":{"range":{"gt":9007199254740992,"lt":9007199254740994}}}`), pass, 1, ""},
		{"out of range", s, expect(`{"page":{"range":{"gt":2}}}`), fail, 0, "whose page: 2, expected a number above 2"},
		{"no number", s, expect(`{"q":{"range":{"gt":2}}}`), fail, 0, `"label:bug is:open", expected a number above 2`},
		{"a range of two", s, expect(`{"page":{"range":[1,9]}}`), pass, 1, ""},
		{"json_schema", s, expect(`{"labels":{"json_schema":{"type":"array","maxItems":2}}}`), pass, 1, ""},
		{"json_schema that does not fit", s, expect(`{"labels":{"json_schema":{"type":"array","maxItems":1}}}`), fail, 0, `labels: ["a","b"] (maxItems: got 2, want 1), expected a value that fits the schema`},
		{"any_of, set, absent_or", s, expect(`{"page":{"any_of":[1,2]},"labels":{"set":["b","a"]},"due":{"absent_or":"x"}}`), pass, 1, ""},
		{"an argument that is not there", s, expect(`{"sort":{"regex":".*"}}`), fail, 0, `Nearest: call 1 ("search" of github: ok), whose sort: nothing, expected text that matches /.*/.`},
		{"the nearest is told", s, expect(`{"q":{"equals":"other"},"page":{"equals":2}}`), fail, 0, "Nearest: call 1"},
		{"all by the same call", s, expect(`{"q":{"equals":"other"},"page":{"equals":2},"id":{"range":{"gt":0}}}`), fail, 0, ""},
		{"without a source", s, `{"expect_tools":[{"tool":"SEAR","args":{"page":{"equals":2}}}]}`, pass, 1, ""},
		{"rejected", s, `{"reject_tools":[{"tool":"search","args":{"q":{"contains":"other"}}}]}`, fail, 0, `Expected no call of /search/ with q: {"contains":"other"}; found call 2`},
		{"rejected, and not made so", s, `{"reject_tools":[{"tool":"search","args":{"q":{"contains":"third"}}}]}`, pass, 1, ""},
	})
}

func TestAllowOnly(t *testing.T) {
	s := scene{
		trial:  evidence.Trial{Executor: "script", Servers: servers("github", "web")},
		frames: concat(call("github", "1", "get", `{"n":1}`, answered), call("web", "1", "fetch", `{}`, refused)),
		transcript: `{"type":"tool.execution_start","tool_name":"run_command","tool_call_id":"2"}
`,
	}
	gap := s
	gap.frames = append(concat(s.frames), evidence.Frame{Server: "web", Conn: "web", Dir: evidence.ToServer, Raw: []byte("{")})
	own := scene{trial: evidence.Trial{Executor: "script"}, transcript: uses("view", "edit", "report_intent")}
	using := func(tools ...string) scene { return scene{trial: own.trial, transcript: uses(tools...)} }
	allow := func(tools ...string) string {
		var entries []map[string]string
		for _, tool := range tools {
			entries = append(entries, map[string]string{"tool": tool})
		}
		config, _ := json.Marshal(map[string]any{"allow_only": entries})
		return string(config)
	}
	run(t, "tool_constraint", []check{
		{"nothing, and nothing was used", scene{trial: evidence.Trial{Executor: "mock"}}, `{"allow_only":[]}`, pass, 1, ""},
		{"nothing", s, `{"allow_only":[]}`, fail, 0, `Expected no tool to be used; found call 1 ("get" of github: ok)`},
		{"nothing, and there is a gap", gap, `{"allow_only":[]}`, fail, 0, "Not everything could be judged: missing evidence: frame 5 of web"},
		{"upstream's names of file tools", own, allow("read", "write"), pass, 1, ""},
		{"... and their own", own, allow("view", "edit"), pass, 1, ""},
		{"upstream's other names", using("view", "edit", "bash", "web_fetch"), allow("readFile", "fileWrite", "runCommand", "Fetch"), pass, 1, ""},
		{"... the other way round", using("readFile", "writeFile", "runCommand", "fetch"), allow("fileRead", "EDIT", "bash", "web_fetch"), pass, 1, ""},
		{"names of other agents", using("read_file", "edit_file", "Bash", "WebFetch"), allow("read", "write", "runCommand", "web_fetch"), pass, 1, ""},
		{"whose tools they are", s, allow("MCP:github-get", "mcp:web-fetch", "custom:run_command"), pass, 1, ""},
		{"builtin tools by a prefix", own, allow("builtin:readFile", "builtin:write"), pass, 1, ""},
		{"an alias is none of a custom tool's", own, allow("custom:read", "write"), fail, 0, `found "view" (builtin)`},
		{"a builtin name is no server's tool", s, allow("builtin:github-get", "web-fetch", "bash"), fail, 0, `found call 1 ("get" of github: ok).`},
		{"a server's tool without its server", s, allow("get", "web-fetch", "bash"), fail, 0, `Name a server's tool with its server: "github-get".`},
		{"no expression", own, allow("^view$", "edit|x"), fail, 0, `found "view" (builtin), "edit" (builtin)`},
		{"no part of a name", using("bash-experimental"), allow("bash"), fail, 0, ""},
		{"aliases with a source", own, `{"allow_only":[{"tool":"read","source":"builtin"},{"tool":"edit","source":"builtin"}]}`, pass, 1, ""},
		{"... which is for allow_only", own, `{"expect_tools":[{"tool":"^read$"}]}`, fail, 0, `Used: "edit", "view".`},
		{"of one server", s, `{"allow_only":[{"tool":"get","source":"mcp:github"}]}`, pass, 1, "The check"},
		{"of one server, and not", s, `{"allow_only":[{"tool":"put","source":"mcp:github"}]}`, fail, 0, `Expected calls of nothing but "put" of mcp:github; found call 1 ("get" of github: ok).`},
		{"of all servers", s, `{"allow_only":[{"tool":"get","source":"mcp:*"}]}`, fail, 0, `found call 2 ("fetch" of web: protocol_error)`},
		{"of two servers", s, `{"allow_only":[{"tool":"get","source":"mcp:github"},{"tool":"/f.*/","source":"mcp:web"}]}`, pass, 1, ""},
		{"one may be of another's source", s, `{"allow_only":[{"tool":"get","source":"mcp:*"},{"tool":"fetch","source":"mcp:web"}]}`, pass, 1, ""},
		{"of every source", s, allow("github-get", "web-fetch"), fail, 0, `found "run_command" (builtin)`},
		{"of builtin tools", s, `{"allow_only":[{"tool":"run_command","source":"builtin"}]}`, pass, 1, ""},
		{"with arguments", s, `{"allow_only":[{"tool":"get","source":"mcp:github","args":{"n":{"equals":2}}}]}`, fail, 0, "found call 1"},
		{"a gap of a server concerned", gap, `{"allow_only":[{"tool":"fetch","source":"mcp:web"}]}`, cannotSay, 0, "of web"},
		{"a gap of another", gap, `{"allow_only":[{"tool":"get","source":"mcp:github"}]}`, pass, 1, ""},
	})
}
