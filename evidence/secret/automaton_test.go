package secret

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAutomaton compares the matches, and the lengths of partial matches, with a naive
// search.
func TestAutomaton(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[abAB]{1,5}`), 0, 6).Draw(t, "texts")
		in := rapid.StringMatching(`[abABc]{0,30}`).Draw(t, "in")
		a := newAutomaton(texts)
		state := int32(0)
		for i := range len(in) {
			state = a.stepFrom(state, in[i])
			behind := strings.ToLower(in[:i+1])
			var want []int32
			depth := 0
			for n, text := range texts {
				text = strings.ToLower(text)
				if strings.HasSuffix(behind, text) {
					want = append(want, int32(n))
				}
				for length := range len(text) + 1 {
					if strings.HasSuffix(behind, text[:length]) {
						depth = max(depth, length)
					}
				}
			}
			if got := slices.Sorted(slices.Values(a.endsAt(state))); !slices.Equal(got, want) || a.depthOf(state) != depth {
				t.Fatalf("behind %q: %v at depth %d, want %v at %d", behind, got, a.depthOf(state), want, depth)
			}
		}
	})
}

// holds reports whether a form is in text, with the digits that it shares.
func holds(text string, f form) bool {
	for at := 0; ; at++ {
		i := strings.Index(text[at:], f.text)
		if i < 0 {
			return false
		}
		at += i
		end := at + len(f.text)
		left := !f.left.there() || at > 0 && f.left.fits(text[at-1])
		right := !f.right.there() || end < len(text) && f.right.fits(text[end])
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
		if len(value) < minLoose || len(value)+len(before)+len(behind) > 1000 {
			return
		}
		whole := []byte(before + value + behind)
		standard := func(text string) string {
			return strings.Map(func(c rune) rune { return rune(standardDigit(byte(c))) }, text)
		}
		for encoding, text := range map[string]string{
			Hex: hex.EncodeToString(whole), Base32: base32.StdEncoding.EncodeToString(whole),
			Base64: standard(base64.RawURLEncoding.EncodeToString(whole)),
		} {
			if !slices.ContainsFunc(formsOf(0, value), func(f form) bool { return f.encoding == encoding && holds(text, f) }) {
				t.Fatalf("%q is not found in %q", value, text)
			}
		}
	})
}

// What is left of a digit once the value's bits are known is its neighbour's alone.
func TestDigitsOfForms(t *testing.T) {
	for _, f := range formsOf(0, "\xff\xff\xff\xff\xff") {
		for side, d := range map[string]digit{"left": f.left, "right": f.right} {
			fitting := 0
			for c := range 256 {
				if d.there() && d.fits(byte(c)) {
					if fitting++; !isDigit(byte(c)) {
						t.Errorf("%s: %q is no digit", side, rune(c))
					}
				}
			}
			if d.there() && (fitting == 0 || fitting > 34) {
				t.Errorf("%s: %d digits fit", side, fitting)
			}
		}
		if len(f.text) < 4 {
			t.Errorf("%q is too short to be told from other text", f.text)
		}
	}
}

func isDigit(c byte) bool {
	_, ok := inBase64(c)
	return ok
}
