package liveview_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/liveview"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/terminal"
)

func TestWork(t *testing.T) {
	t.Parallel()
	const hostile = "step 3/7, RUN \x1b[2J\u202e\t\n::error::すすす"
	for _, columns := range []int{1, 20, 40, 80, 200} {
		for _, step := range []string{"", "step 3/7, RUN npm ci", hostile, hostile + strings.Repeat("す", 200)} {
			line := liveview.Work(step, 75*time.Second, liveview.Size{Columns: columns, Rows: 1}, terminal.Style{})
			if text.Columns(line) >= max(columns, 20) || strings.ContainsAny(line, "\x1b\t\n\u202e") || !strings.HasSuffix(line, " 75s") {
				t.Errorf("%d: %q", columns, line)
			}
		}
	}
	if got, want := liveview.Work("35% of 12MB", 3*time.Minute, liveview.Size{Columns: 40, Rows: 9}, terminal.Style{}), "  35% of 12MB                     3m00s"; got != want {
		t.Errorf("%q", got)
	}
	for step, want := range map[string]string{
		"":      "pulling image x, after 40s",
		"12%":   "pulling image x, after 40s: 12%",
		hostile: `pulling image x, after 40s: step 3/7, RUN \u{1B}[2J\u{202E} \n::error::すすす`,
	} {
		if got := liveview.StillAtWork("pulling image x", step, 40*time.Second); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
