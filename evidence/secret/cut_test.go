package secret

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/text"

	"pgregory.net/rapid"
)

func TestCut(t *testing.T) {
	s := set("hunter2!-and-more", "Grüße")
	for text, want := range map[string]string{
		"plain":                         "plain",
		"hunter2!-and":                  "hunter2!-and", // not marked as truncated
		"a hunter2!-and…":               "a ************…",
		"a hunter2!-and… server gone":   "a ************… server gone",
		"aHVudGVyMiEtYW5kLW…":           "******************…",
		"hunter2!-and-more hunter2!-…x": "***************** *********…x",
		"Gr…, Grüß…":                    "**…, ******…",
		"…":                             "…",
	} {
		if got, _ := s.Cut([]byte(text), false); string(got) != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		quoted := `{"hunt…":[` + marshalled(text) + `]}`
		got, _ := s.Cut([]byte(quoted), true)
		if want := `{"****…":[` + marshalled(want) + `]}`; string(got) != want {
			t.Errorf("%s became %s, want %s", quoted, got, want)
		}
	}
	var nobody *Set
	if got, _ := nobody.Cut([]byte("a…"), false); string(got) != "a…" {
		t.Errorf("a nil set: %q", got)
	}
}

// Wherever a text is cut, nothing is left of a secret in it in any encoding.
func TestShortenedAnywhere(t *testing.T) {
	const secret = "ÄÖÜ/é€😀"
	s := set(secret)
	rapid.Check(t, func(t *rapid.T) {
		encoded := rapid.SampledFrom([]string{secret, encodings(secret)["query"], encodings(secret)["hex"], marshalled(secret)}).Draw(t, "encoded")
		most := rapid.IntRange(0, len(encoded)+5).Draw(t, "most")
		short := text.Shorten("-> "+encoded+" .", most)
		if !utf8.ValidString(short) || len(short) > most+len(text.Ellipsis) {
			t.Fatalf("%q", short)
		}
		got, _ := s.Cut([]byte(short), false)
		if rest := strings.NewReplacer("*", "", text.Ellipsis, "", `"`, "").Replace(string(got)); strings.Trim(rest, "-> .") != "" {
			t.Fatalf("%q became %q", short, got)
		}
	})
}
