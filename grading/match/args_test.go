package match

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestArgs(t *testing.T) {
	long := strings.Repeat("a", 300)
	for _, test := range []struct {
		config, arguments string
		want              string
	}{
		{`{"values":{"repo":{"any_of":["hello","hello-world"]}}}`, `{"repo":"helo"}`, `0/1 repo: "helo", expected one of "hello", "hello-world"`},
		{`{"values":{"q":{"regex":"label:bug"}}}`, `{"q":"is:open label:bug"}`, `1/1`},
		{`{"values":{"q":{"regex":"^bug"}}}`, `{"q":5}`, `0/1 q: 5, expected text that matches /^bug/`},
		{`{"values":{"p":{"range":[1,9]}}}`, `{"p":9.0}`, `1/1`},
		{`{"values":{"p":{"range":[1,9007199254740992]}}}`, `{"p":9007199254740993}`, `0/1 p: 9007199254740993, expected 1–9007199254740992`},
		{`{"values":{"p":{"range":[null,0.3]}}}`, `{"p":0.30000000000000001}`, `0/1 p: 0.30000000000000001, expected a number up to 0.3`},
		{`{"values":{"p":{"range":{"gte":1,"lt":9}}}}`, `{"p":1.0}`, `1/1`},
		{`{"values":{"p":{"range":{"gt":1,"lt":9}}}}`, `{"p":9}`, `0/1 p: 9, expected a number above 1 and below 9`},
		{`{"values":{"p":{"range":{"lt":9}}}}`, `{"p":9}`, `0/1 p: 9, expected a number below 9`},
		{`{"values":{"q":{"contains":"bug"}}}`, `{"q":["bug"]}`, `0/1 q: ["bug"], expected text that contains "bug"`},
		{`{"values":{"p":{"json_schema":{"maximum":1}}}}`, `{"p":9}`, `0/1 p: 9 (got 9, want at most 1), expected a value that fits the schema`},
		{`{"values":{"p":{"json_schema":{}}}}`, `{}`, `0/1 p: nothing, expected a value that fits the schema`},
		{`{"values":{"l":{"set":["a","b","a"]}}}`, `{"l":["a","a","b"]}`, `1/1`},
		{`{"values":{"l":{"set":["a","b"]}}}`, `{"l":["a","a"]}`, `0/1 l: ["a","a"], expected ["a", "b"] in any order`},
		{`{"values":{"l":{"set":[{"any_of":["a","b"]},"a"]}}}`, `{"l":["a","b"]}`, `1/1`},
		{`{"values":{"due":{"absent_or":"2026"}}}`, `{}`, `1/1`},
		{`{"values":{"due":{"absent_or":"2026"}}}`, `{"due":null}`, `0/1 due: null, expected nothing or "2026"`},
		{`{"values":{"f":{"equals":{"regex":"x"}}}}`, `{"f":{"regex":"x"}}`, `1/1`},
		{`{"values":{"regex":"x"}}`, `{"regex":"x","more":1}`, `1/1`},
		{`{"values":{"o":{"a":1,"b":2}}}`, `{"o":{"b":2,"c":3}}`, `1/2 o.a: nothing, expected 1`},
		{`{"values":{"o":{"a":1,"b":2}}}`, `{"o":"x"}`, `0/2 o: "x", expected {a: 1, b: 2}`},
		{`{"values":{"l":[1,2]}}`, `{"l":[1,3,4]}`, `1/3 l[1]: 3, expected 2, l: 3, expected 2 items`},
		{`{"match":"within","values":{"a":1,"b":2}}`, `{"b":2}`, `2/2`},
		{`{"match":"within","values":{"a":1}}`, `{"b":2}`, `1/2 b: 2, expected nothing`},
		{`{"match":"exact","values":{"a":1}}`, `{"a":1,"b c":{}}`, `1/2 ["b c"]: {}, expected nothing`},
		{`{"match":"exact","values":{}}`, ``, `1/1`},
		{`{"values":{"a":1}}`, `[1]`, `0/1 arguments: [1], expected {a: 1}`},
		{`{"match":"ignore"}`, `[1]`, `0/0`},
		{`{"values":{"a":"` + long + `b"}}`, `{"a":"` + long + `c"}`, `0/1 a: …"` + long[:30] + `c", expected …"` + long[:30] + `b"`},
	} {
		fit := compile(t, test.config).Check(json.RawMessage(test.arguments))
		var reported []string
		for _, d := range fit.Differences {
			reported = append(reported, d.String())
		}
		got := strings.TrimSpace(fmt.Sprintf("%d/%d %s", fit.Satisfied, fit.Total, strings.Join(reported, ", ")))
		if got != test.want {
			t.Errorf("%s of %s:\n got %s\nwant %s", test.arguments, test.config, got, test.want)
		}
	}
}

func TestArgsRefused(t *testing.T) {
	for _, test := range []struct{ config, want string }{
		{`{"match":"some","values":{}}`, `match: "some" is none of contains, within, exact and ignore`},
		{`{"match":"exact"}`, `values: missing`},
		{`{"match":"ignore","values":{}}`, `values: match: ignore looks at none; leave them out`},
		{`{"values":{"a":{"regex":"x","b":1}}}`, `values.a: regex cannot be combined with other keys in a matcher; for an object with such a key write {equals: {...}}`},
		{`{"values":{"a":[{"regex":"("}]}}`, "values.a[0].regex: missing closing ): `(`"},
		{`{"values":{"a":{"any_of":[]}}}`, `values.a.any_of: must be a list with at least one value`},
		{`{"values":{"a b":{"any_of":[{"range":[2,1]}]}}}`, `values["a b"].any_of[0].range: is empty: 2 is more than 1`},
		{`{"values":{"a":{"range":["1",2]}}}`, `values.a.range[0]: must be a number or null`},
		{`{"values":{"a":{"range":[null,null]}}}`, `values.a.range: has no bound`},
		{`{"values":{"a":{"range":[1]}}}`, `values.a.range: must be a list of two numbers, of which one may be null, or a mapping with gte, gt, lte or lt`},
		{`{"values":{"a":{"range":{"gt":1,"gte":2}}}}`, `values.a.range: gte and gt: give one of them`},
		{`{"values":{"a":{"range":{}}}}`, `values.a.range: has no bound`},
		{`{"values":{"a":{"contains":""}}}`, `values.a.contains: must not be empty`},
		{`{"values":{"a":{"json_schema":[]}}}`, `values.a.json_schema: a schema must be a mapping`},
		{`{"values":{"a":{"set":1},"b":{"regex":1}}}`, "values.a.set: must be a list\nvalues.b.regex: must be a string"},
	} {
		var c ArgsConfig
		if err := json.Unmarshal([]byte(test.config), &c); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Compile(); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.config, err, test.want)
		}
	}
}
