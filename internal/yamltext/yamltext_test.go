package yamltext

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

func TestBlock(t *testing.T) {
	long := strings.Repeat("x", maxWidth)
	value := `{"find":"sequence","entries":[{"match":{"a":[1,null]},"text":"one\n\n  two: #\n"},{"long":"` + long + `","say":"a\nb"},["` + long + `",[]]],"tab":"a\n\tb","empty":{}}`
	want := `find: sequence
entries:
- {match: {a: [1, null]}, text: "one\n\n  two: #\n"}
- long: ` + long + `
  say: |-
    a
    b
- ["` + long + `", []]
tab: "a\n\tb"
empty: {}
`
	want = strings.Replace(want, `- ["`+long+`", []]`, "-\n  - "+long+"\n  - []", 1)
	if got := string(Block([]byte(value))); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What is written is read as what it was, whatever is in it.
func FuzzBlock(f *testing.F) {
	for _, s := range []string{
		"", "a: b\n", "a\nb", "a\n\n", " a\nb", "a\n b\n  c\n", "a\n   \nb", "---\n...\n", "\u2028\n", "a\n\u0085b", "é\n\U0001f600", "# a\n- b\n", "a\r\nb", "|\n", "a\x00\nb", "\ufeffa\nb", "a \nb ",
		strings.Repeat("long line ", 30) + "\nand another",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "")
		long := s + strings.Repeat("x", maxWidth)
		value, err := jsontext.Marshal(map[string]any{"a": s, "list": []any{s, long, []any{s, long}, map[string]any{"s": s, "long": long}}, "o": map[string]any{"s": s, "long": long}})
		if err != nil {
			t.Fatal(err)
		}
		written := Block(value)
		doc, err := strictyaml.Parse("f", written)
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		var got map[string]json.RawMessage
		if doc.Decode(&got); doc.Err() != nil {
			t.Fatalf("%v\n%s", doc.Err(), written)
		}
		if back, err := jsontext.Marshal(got); err != nil || !jsontext.Same(back, value) {
			t.Errorf("%q is read as\n%s\nin\n%s", s, back, written)
		}
	})
}
