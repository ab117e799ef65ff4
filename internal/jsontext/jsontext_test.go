package jsontext

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// same holds that pieces add up to what the whole is.
func same(t *testing.T, text string) {
	t.Helper()
	want, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	e := NewEscaper(&out, true)
	for rest := []byte(text); len(rest) > 0; {
		n := min(len(rest), 1+len(rest)/3)
		if _, err := e.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got := `"` + out.String() + `"`; got != string(want) {
		t.Fatalf("%q became %s, want %s", text, got, want)
	}
}

func read(quoted []byte) string {
	var all strings.Builder
	for text := range Texts(quoted) {
		all.Write(text)
	}
	return all.String()
}

// long has every kind of character at every kind of cut.
func long(unit string) string { return strings.Repeat(unit, 3*Piece/len(unit)) }

func TestPieces(t *testing.T) {
	for _, unit := range []string{"a", "é", "x€", "yy😀", "\x01", `"\`, "<&>", "\u2028", "\xff", "\xf0\x9f"} {
		same(t, long(unit))
		same(t, "z"+long(unit))
	}
	for _, unit := range []string{`\u00e9`, `x\ud83d\ude00`, `\ud83d`, `\ud83d\u0041`, `\ude00\ud83d\ude00`, `\\`, `\"`, "€", "\xff\xbf"} {
		quoted := []byte(`"` + long(unit) + `"`)
		var want string
		if err := json.Unmarshal(quoted, &want); err != nil {
			t.Fatal(err)
		}
		if got := read(quoted); got != want {
			t.Errorf("%q in pieces is %d bytes, want %d", unit, len(got), len(want))
		}
	}
}

func FuzzPieces(f *testing.F) {
	f.Add("a\x00<é😀\xff\u2028", `"\ud83d\ude00\u0041\\"`)
	f.Fuzz(func(t *testing.T, text, quoted string) {
		same(t, text)
		var want string
		if len(quoted) < 2 || quoted[0] != '"' || json.Unmarshal([]byte(quoted), &want) != nil {
			return
		}
		if got := read([]byte(strings.TrimSpace(quoted))); got != want {
			t.Fatalf("%s is %q, want %q", quoted, got, want)
		}
	})
}
