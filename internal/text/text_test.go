package text

import (
	"slices"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 trials", 1: "1 trial", 2: "2 trials", 12345: "12,345 trials"} {
		if got := Count(n, "trial"); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestSome(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for most, want := range map[int]string{0: "and 4 more", 2: "a, b, and 2 more", 3: "a, b, c, and 1 more", 4: "a, b, c, d"} {
		if got := strings.Join(Few(names, most), ", "); got != want {
			t.Errorf("%d: %s", most, got)
		}
	}
}

func TestQuote(t *testing.T) {
	for s, want := range map[string]string{"a": `"a"`, "a\n": `"a\n"`, "abc": `"abc"`, "abcd": `"abc"…`, "abä": `"ab"…`} {
		if got := Quote(s, 3); got != want {
			t.Errorf("%q: %s", s, got)
		}
	}
}

func TestFork(t *testing.T) {
	long := strings.Repeat("a", 50)
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"abc", "abd", 0},
		{long + "x", long + "y", 45},
		{long, long + "y", 45},
		{"b" + long, "c" + long, 0},
		{long + "ééé" + "x", long + "ééé" + "y", 50}, // 51 is within a character
	} {
		if got := Fork(test.a, test.b, 20, 5); got != test.want {
			t.Errorf("%q and %q: from %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestBothEnds(t *testing.T) {
	for s, want := range map[string]string{"a\nb\nc\n": "a\nb\nc", "a\nb\nc\nd": "a\n[1 line left out]\nc\nd", "a\nb\nc\nd\ne": "a\n[2 lines left out]\nd\ne"} {
		if got := BothEnds(s, 1, 2); got != want {
			t.Errorf("%q: %q", s, got)
		}
	}
}

func TestShellWords(t *testing.T) {
	for s, want := range map[string][]string{
		"":                                     nil,
		"  npx -y  pkg\t":                      {"npx", "-y", "pkg"},
		`node 'my server.js' "a b"c ''`:        {"node", "my server.js", "a bc", ""},
		`a\ b "say \"hi\" \n" 'it'\''s' $HOME`: {"a b", `say "hi" \n`, "it's", "$HOME"},
	} {
		if got, err := ShellWords(s); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", s, got, err, want)
		}
	}
	for _, s := range []string{`'a`, `a "b`, `a\`} {
		if got, err := ShellWords(s); err == nil {
			t.Errorf("%s: %q, no error", s, got)
		}
	}
}

// FuzzShellWords checks that a word survives being written for a shell and read back.
func FuzzShellWords(f *testing.F) {
	f.Add("a", "it's \"b\" \\ \n")
	f.Fuzz(func(t *testing.T, a, b string) {
		a, b = strings.ToValidUTF8(a, ""), strings.ToValidUTF8(b, "")
		if got, err := ShellWords(ShellWord(a) + " " + ShellWord(b)); err != nil || !slices.Equal(got, []string{a, b}) {
			t.Errorf("%q, %q: %q, %v", a, b, got, err)
		}
	})
}

func TestGist(t *testing.T) {
	for printed, want := range map[string]string{
		"": "", " \n\r\n": "", "one\n": "one", "one\r\n two \r\n": "one … two", "10 %\r100 %": "10 % … 100 %",
		"sleep: invalid time interval 'x'\nTry 'sleep --help' for more information.\n":                "sleep: invalid time interval 'x' … Try 'sleep --help' for more information.",
		"Traceback (most recent call last):\n  File \"a.py\", line 1\n    fail()\nValueError: of b\n": "Traceback (most recent call last): … ValueError: of b",
		"/work/check.js:3\nthrow new Error('no a')\n^\n\nError: no a\n    at b\n\nNode.js v22\n":      "/work/check.js:3 … throw new Error('no a') … Node.js v22",
		strings.Repeat("a", 1000):           strings.Repeat("a", 1000),
		strings.Repeat("a", 1000) + "\nend": strings.Repeat("a", 160) + "… … end",
	} {
		if got := Gist(printed); got != want {
			t.Errorf("%q: %q, want %q", printed, got, want)
		}
	}
}
