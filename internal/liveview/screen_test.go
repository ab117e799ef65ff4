package liveview_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/liveview"
	"github.com/waza-isolate/waza/internal/termtest"
)

// TestScreen draws frames that grow and shrink, with lines that stay between them, on a
// terminal that is higher than them and on one that they fill: at the end all that stays
// is there, in its order, and nothing else.
func TestScreen(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{6, 40} {
		term, s := termtest.New(30, rows), &liveview.Screen{}
		show := func(text string, lines ...string) {
			_, _ = term.Write([]byte(s.Draw(text, lines, 30)))
		}
		var want []string
		for i := range 40 {
			text := ""
			if i%3 == 0 {
				long := fmt.Sprintf("stays %d%s", i, strings.Repeat("x", i*3))
				text = long + "\n"
				want = append(want, broken(long, 30)...)
			}
			var lines []string
			for n := range i % 5 {
				lines = append(lines, fmt.Sprintf("live %d of %d", n, i))
			}
			show(text, lines...)
			if got := term.Text(); got != strings.Join(append(append([]string{}, want...), lines...), "\n") {
				t.Fatalf("%d rows, frame %d:\n%s", rows, i, got)
			}
		}
		show("")
		if got := term.Text(); got != strings.Join(want, "\n") || len(term.Unknown) > 0 {
			t.Errorf("%d rows: at the end %q\n%s", rows, term.Unknown, got)
		}
	}
}

func broken(line string, columns int) (rows []string) {
	for len(line) > columns {
		rows, line = append(rows, line[:columns]), line[columns:]
	}
	return append(rows, line)
}

// TestScreenThatChanges resizes the terminal between frames, and types into it.
func TestScreenThatChanges(t *testing.T) {
	t.Parallel()
	columns := 60
	term, s := termtest.New(columns, 20), &liveview.Screen{}
	for i, next := range []int{60, 25, 11, 80, 40} {
		if next != columns {
			columns = next
			term.Resize(columns, 20)
		}
		_, _ = term.Write([]byte("^C"))
		line := strings.Repeat("live", 20)[:columns-1]
		text := ""
		if i == 0 {
			text = "stays\n"
		}
		_, _ = term.Write([]byte(s.Draw(text, []string{line, line}, columns)))
		want := "stays\n" + line + "\n" + line
		if i == 0 {
			want = "^C" + want // it was there before the first frame
		}
		if got := strings.TrimPrefix(term.Text(), "^C"); got != strings.TrimPrefix(want, "^C") {
			t.Errorf("%d columns:\n%s", columns, got)
		}
	}
}

// TestMeasuresThatDiffer has a terminal that shows characters wider than they were taken
// for: the view's lines are cut there, and break nothing.
func TestMeasuresThatDiffer(t *testing.T) {
	t.Parallel()
	term, s := termtest.New(10, 20), &liveview.Screen{}
	for range 3 {
		_, _ = term.Write([]byte(s.Draw("", []string{strings.Repeat("w", 25) + "µ", "second"}, 40)))
	}
	if got := term.Text(); got != "wwwwwwwwwµ\nsecond" {
		t.Errorf("%s", got)
	}
	_, _ = term.Write([]byte(s.Draw("", nil, 40) + strings.Repeat("y", 12)))
	if got := term.Text(); got != "yyyyyyyyyy\nyy" {
		t.Errorf("lines are not broken afterwards:\n%s", got)
	}
}

// TestSizeThatIsLate makes a terminal narrower before its size is reported: all final lines
// remain, possibly with parts of earlier frames.
func TestSizeThatIsLate(t *testing.T) {
	t.Parallel()
	term, s := termtest.New(70, 20), &liveview.Screen{}
	draw := func(text string, columns int) {
		line := strings.Repeat("live ", 20)[:columns-1]
		_, _ = term.Write([]byte(s.Draw(text, []string{line, line, line}, columns)))
	}
	draw("one that stays\nanother\n", 70)
	term.Resize(45, 20)
	draw("", 70)
	draw("the third\n", 70)
	draw("", 45)
	text := term.Text()
	for _, line := range []string{"one that stays", "another", "the third"} {
		if strings.Count(text, line+"\n") != 1 {
			t.Errorf("%q is not there once:\n%s", line, text)
		}
	}
	if live := strings.Repeat("live ", 20)[:44]; !strings.HasSuffix(text, "the third\n"+live+"\n"+live+"\n"+live) {
		t.Errorf("%s", text)
	}
}
