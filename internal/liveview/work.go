package liveview

import (
	"fmt"
	"time"

	"github.com/waza-isolate/waza/report/terminal"
)

// Work returns a line about a long operation: its current step, and how long it has taken.
func Work(step string, took time.Duration, size Size, style terminal.Style) string {
	doing := min(size.least().Columns-1-len("  ")-len("  ")-timeColumns, ample)
	return "  " + pad(safe(step), doing) + "  " + style.Faint(fmt.Sprintf("%*s", timeColumns, seconds(took)))
}

// StillAtWork is like Work for a log.
func StillAtWork(what, step string, took time.Duration) string {
	line := fmt.Sprintf("%s, after %s", what, seconds(took))
	if step != "" {
		line += ": " + step
	}
	return safe(line)
}
