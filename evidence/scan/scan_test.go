package scan_test

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/waza-isolate/waza/evidence/scan"
)

// TestAutomaton compares the matches, and the lengths of partial matches, with a naive
// search.
func TestAutomaton(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[abAB]{1,5}`), 0, 6).Draw(t, "texts")
		in := rapid.StringMatching(`[abABc]{0,30}`).Draw(t, "in")
		fold, folded := func(c byte) byte { return c }, func(s string) string { return s }
		if rapid.Bool().Draw(t, "fold") {
			fold, folded = scan.SmallLetter, strings.ToLower
		}
		a := scan.New(texts, fold)
		state := int32(0)
		for i := range len(in) {
			state = a.Step(state, in[i])
			behind := folded(in[:i+1])
			var want []int32
			depth := 0
			for n, text := range texts {
				text = folded(text)
				if strings.HasSuffix(behind, text) {
					want = append(want, int32(n))
				}
				for length := range len(text) + 1 {
					if strings.HasSuffix(behind, text[:length]) {
						depth = max(depth, length)
					}
				}
			}
			if got := slices.Sorted(slices.Values(a.Ends(state))); !slices.Equal(got, want) || a.Depth(state) != depth {
				t.Fatalf("behind %q: %v at depth %d, want %v at %d", behind, got, a.Depth(state), want, depth)
			}
		}
	})
}

// holds reports whether a form is in text, with the digits that it shares.
func holds(text string, f scan.Form) bool {
	for at := 0; ; at++ {
		i := strings.Index(text[at:], f.Text)
		if i < 0 {
			return false
		}
		at += i
		end := at + len(f.Text)
		left := !f.Left.There() || at > 0 && f.Left.Fits(text[at-1])
		right := !f.Right.There() || end < len(text) && f.Right.Fits(text[end])
		if left && right {
			return true
		}
	}
}

// FuzzForms checks that a value is found amid any bytes in every encoding: by the form for
// its place, and by what it shares with its neighbours too.
func FuzzForms(f *testing.F) {
	f.Add("hunter2!", "user:", "\n")
	f.Add("\xff\xfe\xfd\xfc", "", "x")
	f.Add("GHp-Zk3v9QmB", "\x00", "")
	f.Fuzz(func(t *testing.T, value, before, behind string) {
		if len(value) < 4 || len(value)+len(before)+len(behind) > 1000 {
			return
		}
		whole := []byte(before + value + behind)
		standard := func(text string) string {
			return strings.Map(func(c rune) rune { return rune(scan.StandardDigit(byte(c))) }, text)
		}
		for text, forms := range map[string][]scan.Form{
			hex.EncodeToString(whole):                             {scan.InHex(value)},
			base32.StdEncoding.EncodeToString(whole):              scan.InBase32(value),
			base64.StdEncoding.EncodeToString(whole):              scan.InBase64(value),
			standard(base64.RawURLEncoding.EncodeToString(whole)): scan.InBase64(value),
		} {
			if !slices.ContainsFunc(forms, func(f scan.Form) bool { return holds(text, f) }) {
				t.Fatalf("%q is not found in %q", value, text)
			}
		}
	})
}

// What is left of a digit once the value's bits are known is its neighbour's alone.
func TestSharedDigits(t *testing.T) {
	for _, f := range scan.InBase64("\xff\xff\xff\xff\xff") {
		for side, d := range map[string]scan.Digit{"left": f.Left, "right": f.Right} {
			fitting := 0
			for c := range 256 {
				if d.There() && d.Fits(byte(c)) {
					if fitting++; !scan.IsDigit(byte(c)) {
						t.Errorf("%s: %q is no digit", side, rune(c))
					}
				}
			}
			if d.There() && (fitting == 0 || fitting > 34) {
				t.Errorf("%s: %d digits fit", side, fitting)
			}
		}
		if len(f.Text) < 4 {
			t.Errorf("%q is too short to be told from other text", f.Text)
		}
	}
}

// BenchmarkAutomaton is what it costs to look for canaries' worth of texts.
func BenchmarkAutomaton(b *testing.B) {
	var texts []string
	for i := range 64 {
		for _, f := range scan.InBase64(fmt.Sprintf("waza-canary-%d-gq3tsnbrgi4dmnzygu2a", i*i)) {
			texts = append(texts, f.Text)
		}
	}
	a := scan.New(texts, scan.StandardDigit)
	in := []byte(strings.Repeat(`{"level":"info","msg":"GET /repos/acme/site/contents?ref=main%20branch 200 in 12ms"}`+"\n", 100))
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		state := int32(0)
		for _, c := range in {
			state = a.Step(state, c)
		}
	}
}
