package linediff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func split(s string) []string { return strings.Split(s, "") }

func written(lines []Line) string {
	var out strings.Builder
	for _, line := range lines {
		if line.Op != Same {
			out.WriteByte(byte(line.Op))
		}
		out.WriteString(line.Text)
	}
	return out.String()
}

func TestLines(t *testing.T) {
	for _, test := range []struct{ a, b, want string }{
		{"", "", ""},
		{"", "ab", "+a+b"},
		{"ab", "", "-a-b"},
		{"abc", "abc", "abc"},
		{"abc", "axc", "a-b+xc"},
		{"abcdef", "bcdxef", "-abcd+xef"},
		{"abcabba", "cbabac", "-a-bc+bab-ba+c"},
	} {
		if got := written(Lines(split(test.a), split(test.b))); got != test.want {
			t.Errorf("%s to %s: got %s, want %s", test.a, test.b, got, test.want)
		}
	}
}

func TestHunks(t *testing.T) {
	lines := Lines(split("abcdefghijklmnop"), split("abXdefghijklmnOp"))
	var got []string
	for _, hunk := range Hunks(lines, 2) {
		got = append(got, fmt.Sprintf("%d %d %s", hunk.Old, hunk.New, written(hunk.Lines)))
	}
	if want := []string{"1 1 ab-c+Xde", "13 13 mn-o+Op"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	near := Hunks(Lines(split("abcdef"), split("aXcdeY")), 2)
	if len(near) != 1 || written(near[0].Lines) != "a-b+Xcde-f+Y" {
		t.Errorf("changes close to each other are not one hunk: %v", near)
	}
}

// Texts that have nothing in common would take all of the search's work.
func TestBounded(t *testing.T) {
	var a, b []string
	for i := range 100_000 {
		a, b = append(a, fmt.Sprint("a", i)), append(b, fmt.Sprint("b", i))
	}
	if got := Lines(a, b); len(got) != len(a)+len(b) {
		t.Errorf("%d lines, want all of both", len(got))
	}
}

func FuzzLines(f *testing.F) {
	f.Add("a\nb\nc", "a\nc\nd", 1)
	f.Add("", "\n", 0)
	f.Fuzz(func(t *testing.T, a, b string, context int) {
		olds, news := strings.Split(a, "\n"), strings.Split(b, "\n")
		lines := Lines(olds, news)
		var before, after []string
		for _, line := range lines {
			if line.Op != Added {
				before = append(before, line.Text)
			}
			if line.Op != Removed {
				after = append(after, line.Text)
			}
		}
		if !slices.Equal(before, olds) || !slices.Equal(after, news) {
			t.Fatalf("%q to %q is %v", a, b, lines)
		}
		changed := 0
		for _, hunk := range Hunks(lines, max(context%10, 0)) {
			changed += countChanged(hunk.Lines)
			if first := hunk.Lines[0]; first.Op != Added && olds[hunk.Old-1] != first.Text {
				t.Fatalf("a hunk of %q begins at line %d with %q", a, hunk.Old, first.Text)
			}
		}
		if changed != countChanged(lines) {
			t.Fatalf("hunks have %d changed lines of %d", changed, countChanged(lines))
		}
	})
}

func countChanged(lines []Line) (n int) {
	for _, line := range lines {
		if line.Op != Same {
			n++
		}
	}
	return n
}
