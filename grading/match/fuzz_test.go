package match

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzArgs(f *testing.F) {
	for _, seed := range []struct{ config, arguments string }{
		{`{"values":{"repo":{"any_of":["hello",{"regex":"^h"}]},"page":{"range":[1,null]}}}`, `{"repo":"helo","page":1e99999999999}`},
		{`{"match":"exact","values":{"tags":{"set":["a",{"absent_or":{"equals":{"regex":1}}}]}}}`, `{"tags":["b",{}],"":null}`},
		{`{"match":"within","values":{"a":[1,{"b":{}},[]]}}`, `{"a":[1.0,{"b":{"\ud800":[]}},[],0]}`},
		{`{"match":"ignore"}`, `oops`},
	} {
		f.Add(seed.config, seed.arguments)
	}
	f.Fuzz(func(t *testing.T, config, arguments string) {
		var c ArgsConfig
		if json.Unmarshal([]byte(config), &c) != nil {
			return
		}
		args, err := c.Compile()
		if err != nil {
			if !strings.HasPrefix(err.Error(), "values") && !strings.HasPrefix(err.Error(), "match") {
				t.Errorf("%s: no place in %q", config, err)
			}
			return
		}
		fit := args.Check(json.RawMessage(arguments))
		if fit.Satisfied < 0 || fit.Satisfied > fit.Total || fit.Full() != (len(fit.Differences) == 0) || len(fit.Differences) > maxDifferences {
			t.Errorf("%s of %s: %+v", arguments, config, fit)
		}
		if quick := args.fit(decode(json.RawMessage(arguments)), false); quick.Satisfied != fit.Satisfied || quick.Total != fit.Total {
			t.Errorf("%s of %s: %+v, and untold %+v", arguments, config, fit, quick)
		}
		for _, d := range fit.Differences {
			if d.Path == "" || d.Want == "" || d.Got == "" || d.Want == d.Got || !utf8.ValidString(d.String()) {
				t.Errorf("%s of %s: %q", arguments, config, d)
			}
		}
	})
}

func FuzzCompileTool(f *testing.F) {
	f.Add("/get_.*|put/", "get_issue")
	f.Add("/a)|(?:b/", "ab")
	f.Fuzz(func(t *testing.T, text, name string) {
		tool, err := CompileTool(text)
		if err == nil && tool.Matches(name) && tool.expression == nil && text != name {
			t.Errorf("%q matches %q", text, name)
		}
	})
}
