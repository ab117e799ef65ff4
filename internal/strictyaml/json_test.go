package strictyaml_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

func TestParseJSON(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"plain":           {`{"a": [1, -2.5e3, true, null, "x"], "b": {}}`, `{"a":[1,-2.5e3,true,null,"x"],"b":{}}`},
		"escapes":         {`["\u00e9\ud83d\ude00\/\"\\\n"]`, `["é😀/\"\\\n"]`},
		"big number":      {`[12345678901234567890]`, `[12345678901234567890]`},
		"trailing commas": {"{\"a\": [1, 2,\n], }", `{"a":[1,2]}`},
		"comments":        {"// a\n{/* \n*/\"a\"/**/:// \"b\": 2\n1}//", `{"a":1}`},
		"none in strings": {`{"a": "/* // ,] */"}`, `{"a":"/* // ,] */"}`},
		"tabs and BOM":    {"\ufeff\t{\r\n\t\"a\":\t1}", `{"a":1}`},
		"key order":       {`{"b": 1, "a": 2}`, `{"b":1,"a":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := strictyaml.ParseJSON("f", []byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			var got json.RawMessage
			doc.Decode(&got)
			if string(got) != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestParseJSONErrors(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"empty":              {" // nothing", "f:1:12: the file is empty"},
		"not UTF-8":          {"\xff", "f:1:1: the file is not UTF-8 text; save it as UTF-8"},
		"too large":          {strings.Repeat(" ", strictyaml.MaxBytes+1), "f: the file is larger than 1024 KiB"},
		"too deep":           {strings.Repeat("[", 70), "f:1:66: lists and mappings are nested more than 64 deep"},
		"two values":         {"{} {}", "f:1:4: this is not valid JSON: nothing may follow the value that the file holds"},
		"comma first":        {"[,]", "f:1:2: this is not valid JSON: invalid character ',' at start of value"},
		"word":               {"[é, nul]", "f:1:2: this is not valid JSON: invalid character 'é' at start of value"},
		"number":             {"[01]", "f:1:3: this is not valid JSON: invalid character '1' after array element (expecting ',' or ']')"},
		"bare key":           {"{a: 1}", "f:1:2: this is not valid JSON: a key in double quotes is wanted here"},
		"no colon":           {`{"é" 1}`, "f:1:6: this is not valid JSON: invalid character '1' after object name (expecting ':')"},
		"no comma":           {"[1\n 2]", "f:2:2: this is not valid JSON: invalid character '2' after array element (expecting ',' or ']')"},
		"no end":             {`{"a": 1`, "f:1:8: this is not valid JSON: the file ends and '}' is still wanted"},
		"no value":           {`{"a":`, "f:1:6: this is not valid JSON: the file ends where a value should be"},
		"open string":        {`{"a": "b`, `f:1:7: this is not valid JSON: what begins here has no end`},
		"open escape":        {`["\`, "f:1:2: this is not valid JSON: what begins here has no end"},
		"string over lines":  {"[\"a\nb\"]", `f:1:4: this is not valid JSON: invalid character '\n' in string (expecting non-control character)`},
		"unknown escape":     {`["\q"]`, "f:1:3: this is not valid JSON: invalid escape sequence `\\q` in string"},
		"open comment":       {"1 /* *", "f:1:3: this is not valid JSON: the comment that begins here has no end"},
		"duplicate":          {"{\"a\": 1,\n \"a\": 2}", `f:2:2: duplicate key "a"; it is already on line 1, so remove one of them`},
		"no text of it told": {`{"a": "hunter2"}`, `f:1:7: a must be a whole number, not a string`},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := strictyaml.ParseJSON("f", []byte(tc.in))
			if err == nil {
				doc.Decode(&struct {
					A int `json:"a"`
				}{})
				err = doc.Err()
			}
			if err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

// What encoding/json reads is read alike, or refused for a bound or a duplicate;
// and nothing panics.
func FuzzParseJSON(f *testing.F) {
	for _, seed := range []string{`{"a": [1, "b\u00e9", null, true,], /* c */ }`, "// x\n[]", `"\ud800"`, `{"a":1,"a":2}`, `[1.0, 1e2, -0]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := strictyaml.ParseJSON("f", data)
		var want any
		plain := json.Unmarshal(data, &want) == nil
		if err != nil {
			if plain && len(data) < 60 && !strings.Contains(err.Error(), "UTF-8") {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		if !plain || doc.Err() != nil {
			return
		}
		var raw json.RawMessage
		doc.Decode(&raw)
		var got any
		if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v, %v", data, got, want, err)
		}
	})
}
