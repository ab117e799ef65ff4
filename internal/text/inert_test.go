package text_test

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"

	"github.com/waza-isolate/waza/internal/text"
)

func TestInert(t *testing.T) {
	for said, want := range map[string]string{
		"as it is, \tтак и есть — 1️":                        "as it is, \tтак и есть — 1️",
		"\x1b]0;title\a\x1b[2J\u009b31m\u202e\u2066\u2028\r": "]0;title[2J31m",
		"::error file=a.go::x":                               ": :error file=a.go::x",
		"    ::add-mask::x":                                  "    : :add-mask::x",
		"\u00a0\u3000\t::group::x":                           "\u00a0\u3000\t: :group::x",
		"\u200b:\x1b:\u200berror::x":                         ": :error::x",
		"a ::error::, and ::1":                               "a ::error::, and ::1",
		"::1":                                                "::1",
		"say ##[error]x":                                     "say # #[error]x",
		"say ###[error]x":                                    "say ## #[error]x",
		"say #\x07#vso[task.setvariable]x":                   "say # #vso[task.setvariable]x",
		"##teamcity[testFailed]":                             "# #teamcity[testFailed]",
		"## a title [of three]":                              "## a title [of three]",
	} {
		if got := text.Inert(said); got != want {
			t.Errorf("%q is %q, want %q", said, got, want)
		}
	}
	if got, want := text.InertLines("a\n ::error::b\n\x1bc"), "a\n : :error::b\nc"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// command is what CI systems obey.
var command = regexp.MustCompile(`(?m)^[\s\p{Zs}]*::[A-Za-z]|##[A-Za-z]*\[`)

func FuzzText(f *testing.F) {
	f.Add("\x1b[2J::error::\n ##vso[a]")
	f.Add("#####[::")
	f.Fuzz(func(t *testing.T, said string) {
		got := text.InertLines(said)
		if at := strings.IndexFunc(got, obeyed); at >= 0 || command.MatchString(got) {
			t.Errorf("%q becomes %q", said, got)
		}
		if again := text.InertLines(got); again != got {
			t.Errorf("%q becomes %q, and then %q", said, got, again)
		}
	})
}

func obeyed(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }

// FuzzJSON has texts stand in JSON, written in pieces: its values stay, and nothing in it
// is obeyed.
func FuzzJSON(f *testing.F) {
	f.Add("\x7f\u009b31m\u202e\U000e0001 ##[error]", []byte("{}"))
	f.Add("###vso[", []byte("\xc2\xff["))
	f.Fuzz(func(t *testing.T, said string, other []byte) {
		_ = through(t, other) // anything goes
		var in, out any
		text, err := json.MarshalIndent(map[string]any{said: []string{said}}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got := through(t, text)
		if json.Unmarshal(text, &in) != nil || json.Unmarshal(got, &out) != nil || !reflect.DeepEqual(in, out) {
			t.Errorf("%s becomes %s", text, got)
		}
		if bytes.IndexFunc(got, obeyed) >= 0 || command.Match(got) {
			t.Errorf("obeyed: %q", got)
		}
	})
}

func through(t *testing.T, s []byte) []byte {
	var got bytes.Buffer
	out := text.InertJSON(&got)
	_, err := io.Copy(out, iotest.OneByteReader(bytes.NewReader(s)))
	if err != nil || out.Close() != nil {
		t.Fatal(err)
	}
	return got.Bytes()
}
