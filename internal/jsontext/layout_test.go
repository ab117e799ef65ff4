package jsontext

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestIndentKeepsWhole(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	doc := `{"raw":` + deep + `,"a":[{"raw":{"x":[1,{}]},"b":"raw"},[],{}],"r\u0061w":"}"}`
	want := "{\n  \"raw\": " + deep + ",\n  \"a\": [\n    {\n      \"raw\": {\"x\":[1,{}]},\n      \"b\": \"raw\"\n    },\n    [],\n    {}\n  ],\n  \"r\\u0061w\": \"}\"\n}"
	if got := string(Indent([]byte(doc), "raw")); got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

func TestDepth(t *testing.T) {
	for doc, want := range map[string]int{`1`: 0, `"[[["`: 0, `{}`: 1, `[{"a":"]"},[[]],"\"["]`: 3, strings.Repeat("[", 90) + strings.Repeat("]", 90): 90} {
		if got := Depth([]byte(doc)); got != want {
			t.Errorf("%s: %d, want %d", doc, got, want)
		}
	}
}

// FuzzIndent checks that nothing is left whole which is not named, and all is laid out as
// json.Indent does it.
func FuzzIndent(f *testing.F) {
	f.Add([]byte(`{"a":[1,-2.5e3,{},[],"x\"]}",{"b":null}],"c":{"d":[[{}]]}}`))
	f.Add([]byte(`"x"`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		var compact, want bytes.Buffer
		if json.Compact(&compact, doc) != nil || compact.Len() > 10_000 {
			return
		}
		if err := json.Indent(&want, compact.Bytes(), "", "  "); err != nil {
			t.Fatal(err)
		}
		if got := Indent(compact.Bytes()); string(got) != want.String() {
			t.Fatalf("%s became %s, want %s", doc, got, want.String())
		}
		if Depth(doc) != Depth(want.Bytes()) {
			t.Fatalf("%s: depth %d", doc, Depth(doc))
		}
	})
}
