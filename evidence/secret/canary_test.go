package secret

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const token = "waza-canary-gq3tsnbrgi4dmnzygu2a+/?="

func canariesOf(t testing.TB, values ...Canary) *Canaries {
	t.Helper()
	s, err := NewCanaries(values...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// escaped has every byte of text behind a JSON escape.
func allEscaped(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, `\u%04X`, text[i])
	}
	return b.String()
}

func allPercent(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, "%%%02x", text[i])
	}
	return b.String()
}

func inQuotes(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

func canaryEncodings() map[string]func(string) string {
	return map[string]func(string) string{
		"exact":            func(s string) string { return s },
		"hex":              func(s string) string { return hex.EncodeToString([]byte(s)) },
		"base64":           func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"base32":           func(s string) string { return base32.StdEncoding.EncodeToString([]byte(s)) },
		"json+exact":       allEscaped,
		"percent+exact":    allPercent,
		"percent+hex":      func(s string) string { return allPercent(hex.EncodeToString([]byte(s))) },
		"json+json+exact":  func(s string) string { return allEscaped(allEscaped(s)) },
		"json+base64":      func(s string) string { return allEscaped(base64.URLEncoding.EncodeToString([]byte(s))) },
		"json+percent+hex": func(s string) string { return allEscaped(allPercent(hex.EncodeToString([]byte(s)))) },
	}
}

// TestEveryEncodingAtEveryCut hides a canary in every supported encoding among other bytes,
// split at every position, and checks that it is found.
func TestEveryEncodingAtEveryCut(t *testing.T) {
	s := canariesOf(t, Canary{"other", "another-canary-of-ours"}, Canary{"token", token})
	names := []string{}
	for name := range canaryEncodings() {
		names = append(names, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "encoding")
		around := rapid.StringMatching(`[a-zA-Z0-9 "\\%/+]{0,9}`)
		inside := around.Draw(t, "before") + token + around.Draw(t, "behind")
		text := []byte(rapid.StringMatching(`[ -~]{0,9}[ =&{]`).Draw(t, "far before") + canaryEncodings()[name](inside))
		var found []FoundCanary
		w := s.Watch(func(f FoundCanary) { found = append(found, f) })
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			_, _ = w.Write(rest[:n])
			rest = rest[n:]
		}
		if len(found) == 0 || found[0].Canary != "token" {
			t.Fatalf("%s: %q has %v", name, text, found)
		}
		if whole := s.In(text); len(whole) != len(found) {
			t.Fatalf("in one piece %v, in several %v", whole, found)
		}
	})
}

func TestEncodingsAreNamed(t *testing.T) {
	s := canariesOf(t, Canary{"token", token})
	for in, want := range map[string]string{
		token:                                   "exact",
		strings.ToUpper(token):                  "exact",
		"x" + hex.EncodeToString([]byte(token)): "hex",
		base64.URLEncoding.EncodeToString([]byte("xy" + token)):  "base64",
		base32.HexEncoding.EncodeToString([]byte(token)):         "",
		base32.StdEncoding.EncodeToString([]byte("xyz" + token)): "base32",
		`{"a":"` + allEscaped(token) + `"}`:                      "json+exact",
		inQuotes(`{"a":"` + allEscaped(token) + `"}`):            "json+json+exact",
		"https://h.example/?q=" + url.QueryEscape(token):         "percent+exact",
		`"https:\/\/h.example\/?q=` + allPercent(token) + `"`:    "percent+exact",
		token[:len(token)-1]:                                     "",
		token[:9] + " " + token[9:]:                              "spaced+exact",
		strings.Join(strings.Split(token, ""), "\r\n"):           "spaced+exact",
		quoted(strings.Join(strings.Split(token, ""), "\n")):     "json+spaced+exact",
		token[:9] + strings.Repeat(" ", maxGap+1) + token[9:]:    "",
	} {
		var got string
		if found := s.In([]byte(in)); len(found) > 0 {
			got = found[0].Encoding
		}
		if got != want {
			t.Errorf("%s is found as %q, want %q", in, got, want)
		}
	}
}

// TestNames asks as tunnels do: labels of 63 bytes at the most, letters of any case.
func TestHostNames(t *testing.T) {
	s := canariesOf(t, Canary{"token", "waza-canary-gq3tsnbrgi4dmnzygu2a"})
	value := "waza-canary-gq3tsnbrgi4dmnzygu2a"
	for _, name := range []string{
		value + ".evil.example", strings.ToUpper(value) + ".evil.example", value[:10] + "." + value[10:] + ".evil.example",
		hex.EncodeToString([]byte(value))[:40] + "." + hex.EncodeToString([]byte(value))[40:] + ".x.example",
		strings.ToLower(base32.StdEncoding.EncodeToString([]byte("1" + value)))[:50] + "." + strings.ToLower(base32.StdEncoding.EncodeToString([]byte("1" + value)))[50:] + ".example",
	} {
		if found := s.InName(name); len(found) != 1 || found[0].Canary != "token" {
			t.Errorf("%s: %v", name, found)
		}
	}
	if found := s.InName("waza-canary.example"); found != nil {
		t.Errorf("found %v where there is none", found)
	}
}

func TestValues(t *testing.T) {
	if a, b := MakeCanary("run", "a"), MakeCanary("run", "b"); a == b || a != MakeCanary("run", "a") || a == MakeCanary("run2", "a") || CheckCanary(a) != nil {
		t.Errorf("made %s and %s", a, b)
	}
	for _, bad := range []string{"short", "with a blank in it", "with-ümlauts-in-it", strings.Repeat("x", maxValue+1), "control\x01character"} {
		if _, err := NewCanaries(Canary{"bad", bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := NewCanaries(make([]Canary, MaxCanaries+1)...); err == nil {
		t.Error("too many are taken")
	}
}

// FuzzWriter checks that pieces make no difference, and that nothing is found where
// nothing of a value's beginning is in any reading of the bytes.
func FuzzCanaryWriter(f *testing.F) {
	f.Add([]byte(`{"a":"`+allEscaped(token)+`"}`), 7)
	f.Add([]byte(allPercent(token)+`\u00`), 1)
	f.Add([]byte(`\\u0077%5`), 3)
	s := canariesOf(f, Canary{"token", token})
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		piece = max(piece%64, 1)
		var found []FoundCanary
		w := s.Watch(func(f FoundCanary) { found = append(found, f) })
		for rest := in; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
			_, _ = w.Write(rest[:min(piece, len(rest))])
		}
		if whole := s.In(in); len(whole) != len(found) {
			t.Fatalf("%q: whole %v, in pieces %v", in, whole, found)
		}
		if len(found) > 0 && len(in) < len(token) {
			t.Fatalf("%q is too short for %v", in, found)
		}
		if bytes.Contains(in, []byte(token)) && len(found) == 0 {
			t.Fatalf("%q: not found", in)
		}
	})
}
