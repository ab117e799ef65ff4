package written_test

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/written"
)

// holds says whether a writing is in text, with the digits that it shares.
func holds(text string, w written.Writing) bool {
	for at := 0; ; at++ {
		i := strings.Index(text[at:], w.Text)
		if i < 0 {
			return false
		}
		at += i
		end := at + len(w.Text)
		left := !w.Left.There() || at > 0 && w.Left.Fits(text[at-1])
		right := !w.Right.There() || end < len(text) && w.Right.Fits(text[end])
		if left && right {
			return true
		}
	}
}

// FuzzIn holds that a value is found amid any bytes in every encoding: by the writing for
// its place, and by what it shares with its neighbours too.
func FuzzIn(f *testing.F) {
	f.Add("hunter2!", "user:", "\n")
	f.Add("\xff\xfe\xfd\xfc", "", "x")
	f.Add("GHp-Zk3v9QmB", "\x00", "")
	f.Fuzz(func(t *testing.T, value, before, behind string) {
		if len(value) < 4 || len(value)+len(before)+len(behind) > 1000 {
			return
		}
		whole := []byte(before + value + behind)
		for encoding, texts := range map[string][]string{
			written.Exact:  {string(whole)},
			written.Hex:    {hex.EncodeToString(whole)},
			written.Base32: {base32.StdEncoding.EncodeToString(whole)},
			written.Base64: {base64.StdEncoding.EncodeToString(whole), base64.RawURLEncoding.EncodeToString(whole)},
		} {
			for _, text := range texts {
				found := false
				for _, w := range written.In(value) {
					found = found || w.Encoding == encoding && holds(text, w)
				}
				if !found {
					t.Fatalf("%q is not found in %s %q", value, encoding, text)
				}
			}
		}
	})
}

// What is left of a digit once the value's bits are known is its neighbour's alone.
func TestSharedDigits(t *testing.T) {
	for _, w := range written.In("\xff\xff\xff\xff\xff") {
		for side, d := range map[string]written.Digit{"left": w.Left, "right": w.Right} {
			fitting := 0
			for c := range 256 {
				if d.There() && d.Fits(byte(c)) {
					if fitting++; !d.Like(byte(c)) || !written.IsDigit(byte(c)) {
						t.Errorf("%s %s: %q is no digit", w.Encoding, side, rune(c))
					}
				}
			}
			if grouped := w.Encoding == written.Base32 || w.Encoding == written.Base64; d.There() && (!grouped || fitting == 0 || fitting > 34) {
				t.Errorf("%s %s: %d digits fit", w.Encoding, side, fitting)
			}
		}
		if len(w.Text) < 4 {
			t.Errorf("%s %q is too short to be told from other text", w.Encoding, w.Text)
		}
	}
}
