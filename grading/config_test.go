package grading_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

func TestEveryTypeHasASchema(t *testing.T) {
	if types := grading.Types(); !slices.IsSorted(types) || len(types) != 17 {
		t.Errorf("types %v", types)
	}
	for _, kind := range grading.Types() {
		config, ok := grading.NewConfig(kind)
		if !ok {
			t.Fatalf("%s: no config", kind)
		}
		options := &jsonschema.ForOptions{TypeSchemas: grading.TypeSchemas()}
		schema, err := jsonschema.ForType(reflect.TypeOf(config).Elem(), options)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		for name, property := range schema.Properties {
			if property.Description == "" {
				t.Errorf("%s.%s is not described", kind, name)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, test := range []struct {
		text string
		want grading.Names
	}{
		{`"a"`, grading.Names{"a"}},
		{`["a", "b"]`, grading.Names{"a", "b"}},
		{`[]`, grading.Names{}},
	} {
		var names grading.Names
		if err := json.Unmarshal([]byte(test.text), &names); err != nil || !cmp.Equal(names, test.want) {
			t.Errorf("%s: %v, %v", test.text, names, err)
		}
	}
	for _, text := range []string{`{"a":1}`, `[{}]`} {
		var names grading.Names
		if json.Unmarshal([]byte(text), &names) == nil {
			t.Errorf("%s: %v", text, names)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct{ kind, config, want string }{
		{"text", `{}`, ""},
		{"text", `{"regex_match":["a("]}`, "regex_match[0]"},
		{"text", `{"regex_not_match":["a","["]}`, "regex_not_match[1]"},
		{"file", `{}`, "it checks nothing"},
		{"file", `{"must_exist":["a/../b","..c"]}`, ""},
		{"file", `{"must_exist":["/a"]}`, "absolute"},
		{"file", `{"must_not_exist":["a/../../b"]}`, "leads out"},
		{"file", `{"must_not_exist":[".."]}`, "leads out"},
		{"file", `{"content_patterns":[{"path":""}]}`, "content_patterns[0].path must not be empty"},
		{"file", `{"content_patterns":[{"path":"a","must_match":["("]}]}`, "content_patterns[0].must_match[0]"},
		{"tool_constraint", `{}`, "it checks nothing"},
		{"tool_constraint", `{"expect_tools":[{"tool":" "}]}`, "expect_tools[0].tool: missing"},
		{"tool_constraint", `{"reject_tools":[{"tool":"a","source":"mcp:"}]}`, "reject_tools[0].source"},
		{"tool_constraint", `{"reject_tools":[{"tool":"a","source":"github"}]}`, "none of builtin"},
		{"tool_constraint", `{"reject_tools":[{"tool":"a","source":"mcp"}]}`, `write "mcp:*"`},
		{"tool_constraint", `{"reject_tools":[{"tool":"a","source":"mcp:*"}]}`, ""},
		{"tool_constraint", `{"reject_tools":[{"tool":"^a$","source":"mcp:*"}]}`, `write "a"`},
		{"tool_constraint", `{"reject_tools":[{"tool":"^(find|list)_","source":"mcp:s"}]}`, `write "/(find|list)_.*/"`},
		{"tool_constraint", `{"reject_tools":[{"tool":"a|b$","source":"mcp:s"}]}`, `write "/.*(?:a|b$).*/"`},
		{"tool_constraint", `{"reject_tools":[{"tool":"a.*b","source":"builtin"}]}`, `write "/.*a.*b.*/"`},
		{"tool_constraint", `{"reject_tools":[{"tool":"a.b-c/d","source":"mcp:s"},{"tool":"/a(/","source":"mcp:s"}]}`, "reject_tools[1].tool: error parsing"},
		{"tool_constraint", `{"reject_tools":[{"tool":"delete_*","source":"mcp:s"}]}`, `write "/delete_.*/"`},
		{"mcp_compliance", `{"reject_tools":["a","delete_*"]}`, `reject_tools[1]: a tool is an exact name or a /expression/ over the whole name, and "delete_*" is no name; write "/delete_.*/"`},
		{"mcp_compliance", `{"before":[["a","^b"]]}`, "before[0][1]: "},
		{"mcp_compliance", `{"match":"effects","read_only":["get_*"]}`, "read_only[0]: "},
		{"mcp_compliance", `{"reject_tools":["/GET/i"]}`, `reject_tools[0]: a tool is an exact name or a /expression/ over the whole name, and "/GET/i" is no name; write "/(?i)GET/"`},
		{"mcp_compliance", `{"expect_tools_used":["*"]}`, `expect_tools_used[0].tool: a tool is an exact name or a /expression/ over the whole name, and "*" is no name; write "/.*/"`},
		{"mcp_compliance", `{"expect_tools_used":[{"tool":"a","any_of":[{"tool":"b|c"}]}]}`, "expect_tools_used[0].any_of[0].tool: "},
		{"mcp_compliance", `{"max_tool_errors":0,"errors":{"expected":[{"tool":"get_*"}]}}`, "errors.expected[0].tool: "},
		{"mcp_compliance", `{"resources":{"reject":["db://parts?*"]}}`, ""},
		{"behavior", `{"mcp_servers":{"s":{"forbidden_tools":["delete_*"]}}}`, "forbidden_tools[0]: "},
		{"tool_constraint", `{"allow_only":[]}`, ""},
		{"tool_constraint", `{"allow_only":[{"tool":"a(","command_pattern":"x"},{"tool":"search/codebase"}]}`, ""},
		{"tool_constraint", `{"allow_only":[{"tool":" "}]}`, "allow_only[0].tool: missing"},
		{"tool_constraint", `{"allow_only":[{"tool":"a","args":{"q":{"regex":"("}}}]}`, "allow_only[0].args.q.regex: missing closing"},
		{"tool_constraint", `{"allow_only":[{"tool":"a","args":{"q":{"contains":"x","regex":"x"}}}]}`, "cannot be combined with other keys"},
		{"tool_constraint", `{"allow_only":[{"tool":"a","args":{"q":{"contains":1}}}]}`, "contains: must be a string"},
		{"tool_constraint", `{"allow_only":[{"tool":"a","args":{"q":{"range":{"above":1}}}}]}`, `"above" is none of gte`},
		{"tool_constraint", `{"allow_only":[{"tool":"a","args":{"q":{"range":{"gt":"1"}}}}]}`, "gt: must be a number"},
		{"tool_constraint", `{"allow_only":[{"tool":"a","args":{"q":{"range":[2,1]}}}]}`, "2 is more than 1"},
		{"tool_constraint", `{"allow_only":[{"tool":"a","args":{"q":{"json_schema":{"type":"strin"}}}}]}`, "q.json_schema: /type: value must be one of"},
		{"action_sequence", `{"matching_mode":"exact","expected_actions":["a"]}`, `must be exact_match, in_order_match or any_order_match, not "exact"`},
		{"action_sequence", `{"matching_mode":"exact_match","expected_actions":[]}`, "expected_actions must not be empty"},
		{"action_sequence", `{"matching_mode":"exact_match","expected_actions":["a","mcp:s","mcp:s/t/u"]}`, "expected_actions[1]"},
		{"action_sequence", `{"matching_mode":"exact_match","expected_actions":["a","mcp:s/t/u"]}`, ""},
		{"recovery", `{}`, ""},
		{"recovery", `{"accept":[]}`, "accept must not be empty"},
		{"recovery", `{"accept":["again","guessed"]}`, "accept[1]"},
		{"recovery", `{"max_again":-1}`, "at least 0"},
		{"recovery", `{"gave_up":["("]}`, "gave_up[0]"},
		{"skill_invocation", `{}`, "it checks nothing"},
		{"skill_invocation", `{"required_skills":["a"]}`, `mode: "" is none of exact_match, in_order, any_order`},
		{"skill_invocation", `{"forbidden_skills":["a"]}`, ""},
		{"skill_invocation", `{"forbidden_skills":["a"],"allow_extra":false}`, "goes with required_skills"},
		{"skill_invocation", `{"mode":"in_order","required_skills":["a"," "]}`, "required_skills[1]"},
		{"tool_calls", `{}`, "it checks nothing"},
		{"tool_calls", `{"max_calls":0}`, ""},
		{"tool_calls", `{"max_calls":-1}`, "max_calls must be at least 0, not -1"},
		{"tool_calls", `{"min_calls":2,"max_calls":1}`, "more than max_calls"},
		{"tool_calls", `{"expect":[{"tool":"("}]}`, "expect[0].tool"},
		{"tool_calls", `{"expect":[{"tool":"a","args":{"x":{"regex":""}}}]}`, "expect[0].args.x.regex: must not be empty"},
		{"diff", `{}`, "missing key \"expected_files\""},
		{"diff", `{"expected_files":[{"path":"a"}]}`, "needs snapshot or contains"},
		{"diff", `{"expected_files":[{"path":"../a","contains":["x"]}]}`, "leads out"},
		{"diff", `{"expected_files":[{"path":"a","contains":["x","- "]}]}`, "contains[1]: no text"},
		{"json_schema", `{}`, "give it schema or schema_file"},
		{"json_schema", `{"schema":{},"schema_file":"a"}`, "give one of them"},
		{"json_schema", `{"schema":{"type":"strin"}}`, "schema: "},
		{"json_schema", `{"schema":[]}`, "a schema must be a mapping"},
		{"json_schema", `{"schema":{"$ref":"other.json"}}`, "no other file is read"},
		{"json_schema", `{"schema":{"$ref":"file:///etc/passwd"}}`, "no other file is read"},
		{"json_schema", `{"schema":{"$ref":"https://json.invalid/schema"}}`, "no other file is read"},
		{"json_schema", `{"schema":{"$schema":"https://json.invalid/schema"}}`, "no other file is read"},
		{"json_schema", `{"schema":{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","definitions":{"a":{}}}}`, ""},
		{"json_schema", `{"schema":{"minimum":1e1000001}}`, "too long or too large"},
		{"tool_constraint", `{"reject_tools":[{"tool":"a","path_pattern":"("}]}`, "reject_tools[0].path_pattern"},
		{"behavior", `{}`, "it checks nothing"},
		{"behavior", `{"max_mcp_calls":0}`, ""},
		{"behavior", `{"max_mcp_calls":-1}`, "at least 0"},
		{"behavior", `{"mcp_servers":{"a":{}}}`, "mcp_servers.a: it checks nothing"},
		{"behavior", `{"mcp_servers":{"a":{"max_calls":-1}}}`, "mcp_servers.a.max_calls must be at least 0"},
		{"behavior", `{"mcp_servers":{"a":{"required_tools":["/(/"]}}}`, "mcp_servers.a.required_tools[0]: error parsing"},
		{"program", `{}`, `missing key "command"`},
		{"program", `{"command":"a","timeout":-1}`, "timeout must be at least 0"},
		{"program", `{"command":"a","files":{"../x":"x"}}`, `files: "../x"`},
		{"program", `{"command":"a","image":"b c"}`, "image: must not hold blanks"},
		{"code", `{"language":"ruby"}`, `must be python or javascript, not "ruby"`},
		{"code", `{"assertions":["True"," "]}`, "assertions[1]: empty"},
		{"state", `{"server":"a"}`, "it checks nothing"},
		{"state", `{"server":"a","files":[{"path":"x"}]}`, "files[0].path"},
		{"state", `{"server":"a","files":[{"path":"/x","exists":false,"contains":"a"}]}`, "exists: false cannot be combined with contains, matches or json"},
		{"state", `{"server":"a","calls":[{"tool":"x","arguments":[]}]}`, "calls[0].arguments: must be an object"},
		{"state", `{"server":"a","calls":[{"tool":"x","matches":"("}]}`, "matches[0]"},
		{"state", `{"server":"a","calls":[{"tool":"x","result":{"match":"near"}}]}`, "calls[0].result.match"},
		{"mcp_compliance", `{"server":"a"}`, "it checks nothing"},
		{"mcp_compliance", `{"max_tool_errors":-1}`, "at least 0"},
		{"mcp_compliance", `{"server":[],"max_tool_errors":1}`, "server: empty"},
		{"mcp_compliance", `{"expect_tools_used":["/","//","/a|b/"]}`, ""},
		{"mcp_compliance", `{"expect_tools_used":[""]}`, "an empty name"},
		{"mcp_compliance", `{"expect_tools_used":["/(/"]}`, "missing closing"},
		{"mcp_compliance", `{"reject_tools":["/a)|(b/"]}`, "unexpected )"},
		{"mcp_compliance", `{"expect_tools_used":[{"server":"s"}]}`, "add expect_tools_used[0].tool"},
		{"mcp_compliance", `{"expect_tools_used":[{"tool":"a","arg":{}}]}`, `unknown key "arg"`},
		{"mcp_compliance", `{"expect_tools_used":[{"tool":"a","any_of":[{"server":"s"}]}]}`, "add expect_tools_used[0].any_of[0].tool"},
		{"mcp_compliance", `{"expect_tools_used":[{"tool":"a","count":{"min":3,"max":2}}]}`, "expect_tools_used[0].count: at most 2 and at least 3"},
		{"mcp_compliance", `{"expect_tools_used":[{"tool":"a","count":{"min":0,"max":0}}]}`, "count.max must be at least 1"},
		{"mcp_compliance", `{"expect_tools_used":[{"tool":"a","args":{"values":{"x":{"regex":"("},"y":{"range":[2,1]}}}}]}`, "expect_tools_used[0].args.values.y.range"},
		{"mcp_compliance", `{"match":"superset","max_tool_errors":0}`, "it checks nothing without expect_tools_used"},
		{"mcp_compliance", `{"match":"effects"}`, ""},
		{"mcp_compliance", `{"read_only":["a"],"max_tool_errors":0}`, "read_only: it works only with match: effects"},
		{"mcp_compliance", `{"before":[["a"]]}`, "before[0]: give at least two tools"},
		{"mcp_compliance", `{"expect_tools_used":["a"],"errors":{"count":["tool"],"recovery":{"window":1}}}`, "errors.count: it is for max_tool_errors"},
		{"mcp_compliance", `{"max_tool_errors":0,"errors":{"count":["tools"]}}`, "errors.count[0]"},
		{"mcp_compliance", `{"max_tool_errors":0,"errors":{"recovery":{"window":0}}}`, "errors.recovery.window"},
		{"mcp_compliance", `{"max_tool_errors":0,"errors":{"expected":[{"code":1}]}}`, "add errors.expected[0].tool"},
		{"mcp_compliance", `{"max_tool_errors":0,"threshold":1.5}`, "threshold must be at most 1, not 1.5"},
		{"mcp_compliance", `{"rug_pull":"warn"}`, "it checks nothing"},
		{"mcp_compliance", `{"wire":{"unbacked_claims":"fail"}}`, ""},
		{"mcp_compliance", `{"schema":{}}`, "it checks nothing"},
	} {
		config, _ := grading.NewConfig(test.kind)
		doc, err := strictyaml.Parse("config", []byte(test.config))
		if err == nil {
			doc.Decode(config)
			err = doc.Err()
		}
		if rules, ok := config.(interface{ Validate() error }); ok && err == nil {
			err = rules.Validate()
		}
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s %s: %v; want %q", test.kind, test.config, err, test.want)
		}
	}
}
