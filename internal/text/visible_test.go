package text

import (
	"strings"
	"testing"
	"unicode"
)

func TestVisible(t *testing.T) {
	tests := map[string]string{
		"plain":               "plain",
		"two\nlines\tand":     `two\nlines and`,
		"\x1b[31mred":         `\u{1B}[31mred`,
		"a\u202Eb":            `a\u{202E}b`,
		"zero\u200Bwidth":     `zero\u{200B}width`,
		"tag\U000E0041":       `tag\u{E0041}`,
		"bad\xff":             `bad\xFF`,
		"\u009b1m":            `\u{9B}1m`,
		"漢字 é":                "漢字 é",
		"filler\u3164\u2800.": `filler\u{3164}\u{2800}.`,
	}
	for text, want := range tests {
		if got := Visible(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := VisibleLines("a\nb\x07"); got != "a\nb\\u{7}" {
		t.Errorf("lines: %q", got)
	}
}

func TestShorten(t *testing.T) {
	for _, tt := range []struct {
		most int
		want string
	}{{0, "…"}, {1, "a…"}, {2, "a…"}, {3, "aé…"}, {4, "aéb"}, {5, "aéb"}} {
		if got := Shorten("aéb", tt.most); got != tt.want {
			t.Errorf("in %d: %q", tt.most, got)
		}
	}
}

// Bytes that are no characters do not take all before them along.
func TestShortenNoText(t *testing.T) {
	if got := Shorten(strings.Repeat("\x80", 100), 50); len(got) < 40 || len(got) > 50+len("…") {
		t.Errorf("%q", got)
	}
}

func TestFirstLine(t *testing.T) {
	for text, want := range map[string]string{"": "", "one": "one", "\n \r\n  one\t\r\ntwo": "one", "\n\n": ""} {
		if got := FirstLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text    string
		columns int
		want    string
	}{
		{"short", 10, "short"}, {"exactly", 7, "exactly"}, {"too long", 5, "too …"}, {"漢字漢字", 5, "漢字…"},
	} {
		if got := Fit(tt.text, tt.columns); got != tt.want || Columns(got) > tt.columns {
			t.Errorf("%q in %d: %q", tt.text, tt.columns, got)
		}
	}
	for _, tt := range []struct {
		text       string
		head, tail int
		want       string
	}{
		{"short", 3, 2, "short"}, {"too long", 3, 2, "to…ng"}, {"too long", 1, 3, "…ong"}, {"too long", 4, 0, "too…"},
		{"too long", 4, -2, "t…"}, {"漢字漢字", 3, 3, "漢…字"}, {"漢字漢字", 0, 2, "…字"},
	} {
		if got := FitEnds(tt.text, tt.head, tt.tail); got != tt.want {
			t.Errorf("%q in %d and %d: %q", tt.text, tt.head, tt.tail, got)
		}
	}
	for _, got := range []string{Fit("a"+strings.Repeat("\u0301", 10_000), 4), FitEnds("a"+strings.Repeat("\u0301", 10_000), 2, 2)} {
		if len(got) > 100 {
			t.Errorf("marks without end: %d bytes", len(got))
		}
	}
}

// FuzzLine checks that a line contains no control characters or hidden text.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{"a\x1b[2J", "\u202E", "\xff\xfe", "x\r\ny", "\U000E0041"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := Visible(text)
		for _, r := range line {
			if r == '\n' || r == '\t' || Hidden(r) || !unicode.IsGraphic(r) {
				t.Fatalf("%q has %U", line, r)
			}
		}
		if cut := Fit(line, 40); Columns(cut) > 40 {
			t.Fatalf("%q takes %d columns", cut, Columns(cut))
		}
	})
}

func TestWrap(t *testing.T) {
	t.Parallel()
	marked := "a" + strings.Repeat("\u0301", 200)
	for in, want := range map[string]string{
		"":                        "",
		"one two three":           "one two|three",
		"  indented, and more":    "  indented,|and more",
		"a word thatislongerthan": "a word|thatislonge|rthan",
		"世界世界世界世界":                "世界世界世|界世界",
		marked:                    marked[:95] + "|" + marked[95:191] + "|" + marked[191:287] + "|" + marked[287:383] + "|" + marked[383:],
	} {
		if got := strings.Join(Wrap(in, 12), "|"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("one two  three", 7)
	f.Add("\xff\u0301\u200d👩‍👩‍👧"+strings.Repeat("x", 50), 5)
	f.Fuzz(func(t *testing.T, s string, width int) {
		if width < 4 || width > 1000 {
			t.Skip()
		}
		squeezed := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		lines := Wrap(s, width)
		if squeezed(strings.Join(lines, "")) != squeezed(s) {
			t.Errorf("%q becomes %q", s, lines)
		}
	})
}
