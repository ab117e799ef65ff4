package changes

import (
	"strings"
	"testing"
)

// marked returns a text with brackets around ranges of it.
func marked(s string, ranges [][2]int) string {
	var out strings.Builder
	at := 0
	for _, r := range ranges {
		out.WriteString(s[at:r[0]] + "[" + s[r[0]:r[1]] + "]")
		at = r[1]
	}
	return out.String() + s[at:]
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ before, after, old, now string }{
		{"", "", "", ""},
		{"same words", "same  words", "same words", "same  words"},
		{"12 of Ball bearing cost 15276 cents.", "12 of Ball bearing cost 15 cents!", "12 of Ball bearing cost [15276] cents[.]", "12 of Ball bearing cost [15] cents[!]"},
		{"You meet at nine. I did not follow it.", "You meet at nine.", "You meet at nine. [I did not follow it.]", "You meet at nine."},
		{"nothing alike", "at all", "[nothing alike]", "[at all]"},
		{"", "new", "", "[new]"},
		{`{"sku":"A-1"}`, `{"sku":"B-1"}`, `{"sku":"[A]-1"}`, `{"sku":"[B]-1"}`},
		{"- a\n@@ -1,2 +3,4 @@", "- b\n@@ -1,2 +3,5 @@", "- [a]\n@@ -1,2 +3,[4] @@", "- [b]\n@@ -1,2 +3,[5] @@"},
		{"größer \xff", "kleiner \xff", "[größer] \xff", "[kleiner] \xff"},
	} {
		old, now := Words(c.before, c.after)
		if got, want := marked(c.before, old)+"|"+marked(c.after, now), c.old+"|"+c.now; got != want {
			t.Errorf("%q and %q: %s, want %s", c.before, c.after, got, want)
		}
	}
}

// FuzzWords checks that unmarked words are the same in both texts.
func FuzzWords(f *testing.F) {
	f.Add("one two three", "one 2 three")
	f.Add("a a b a", "a b a a")
	f.Add("@@ -1 +1 @@", "--- x\n+++ y")
	f.Fuzz(func(t *testing.T, before, after string) {
		old, now := Words(before, after)
		if a, b := strings.Join(strings.Fields(rest(t, before, old)), ""), strings.Join(strings.Fields(rest(t, after, now)), ""); a != b {
			t.Errorf("%q is left of %q, and %q of %q", a, before, b, after)
		}
	})
}

// rest returns what ranges leave of a text.
func rest(t *testing.T, s string, ranges [][2]int) string {
	var out strings.Builder
	at := 0
	for _, r := range ranges {
		if r[0] < at || r[1] <= r[0] || r[1] > len(s) {
			t.Fatalf("a range %v of %d bytes", r, len(s))
		}
		out.WriteString(s[at:r[0]] + " ")
		at = r[1]
	}
	return out.String() + s[at:]
}
