package schema_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/schema"
)

func parse(t *testing.T, raw string) any {
	t.Helper()
	v, err := jsontext.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMisfits(t *testing.T) {
	for _, test := range []struct {
		schema, value string
		want          []string
	}{
		{`{}`, `[1]`, nil},
		{`{"type":"object","required":["a"]}`, `{}`, []string{"missing property 'a'"}},
		{`{"items":{"type":"string"}}`, `[1,2,3]`, []string{"/0: got number, want string", "/1: got number, want string", "and 1 more"}},
		{`{"maximum":9007199254740992}`, `9007199254740993`, []string{"got 9007199254740993, want at most 9007199254740992"}},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"const":1}}}`, `1.0`, nil},
		{`{"minimum":1}`, `1e1000001`, []string{`the number "1e1000001" is too long or too large to compare`}},
		{`{"minimum":1}`, strings.Repeat("[", 100) + `1e1000001` + strings.Repeat("]", 100), []string{`the number "1e1000001" is too long or too large to compare`}},
	} {
		s, err := schema.Compile([]byte(test.schema))
		if err != nil {
			t.Fatal(err)
		}
		value := parse(t, test.value)
		if got, err := s.Misfits(value, 2); err != nil || !slices.Equal(got, test.want) || s.Fits(value) != (test.want == nil) {
			t.Errorf("%s of %s: %q, %v; want %q", test.value, test.schema, got, err, test.want)
		}
	}
}

// Errors in a schema are reported to its author.
func TestCompile(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":`:                      "not valid JSON: unexpected end",
		`[]`:                            "a schema must be a mapping",
		`{"required":1}`:                "/required: got number, want array",
		`{"$ref":"other.json"}`:         `"other.json", which is not in it, and no other file is read`,
		`{"$ref":"file:///etc/passwd"}`: `"file:///etc/passwd", which is not in it`,
		`{"minimum":1e1000001}`:         "too long or too large",
		`{"pattern":"("}`:               "missing closing",
	} {
		if _, err := schema.Compile([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", raw, err, want)
		}
	}
}

// A schema that refers to itself without an end decides nothing.
func TestCycle(t *testing.T) {
	const endless = "refers to itself at the same place"
	for _, raw := range []string{`{"$ref":"#"}`, `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#"}]}}}`} {
		s, err := schema.Compile([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Misfits(map[string]any{}, 2); err == nil || !strings.Contains(err.Error(), endless) {
			t.Errorf("%s: %v", raw, err)
		}
		var c schema.Checker
		if found := c.Check([]byte(raw), map[string]any{}); !strings.Contains(found.Unknown, endless) {
			t.Errorf("%s: %+v", raw, found)
		}
	}
}

// FuzzChecker checks hostile arguments against a hostile schema, and that the result is
// always the same.
func FuzzChecker(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"pattern":"^a+$"}}}`, `{"a":"aaa"}`)
	f.Add(`{"anyOf":[{"$ref":"#"},{"uniqueItems":true}]}`, `[1,1.0]`)
	f.Add(`{"$dynamicRef":"#a","unevaluatedItems":{"$dynamicAnchor":"a"}}`, `[[]]`)
	f.Fuzz(func(t *testing.T, raw, arguments string) {
		value, err := jsontext.Parse([]byte(arguments))
		if err != nil {
			return
		}
		var one, other schema.Checker
		a, b := one.Check([]byte(raw), value), other.Check([]byte(raw), value)
		if a.Valid != b.Valid || a.Unknown != b.Unknown || !slices.Equal(a.Misfits, b.Misfits) {
			t.Errorf("%+v and %+v", a, b)
		}
	})
}
