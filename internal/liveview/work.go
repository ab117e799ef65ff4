package liveview

import (
	"fmt"
	"time"

	"github.com/waza-isolate/waza/report/terminal"
)

// Work returns the line of something that takes long: its current step, and how long it has taken.
func Work(step string, took time.Duration, size Size, style terminal.Style) string {
	doing := min(size.least().Columns-1-len("  ")-len("  ")-timeColumns, ample)
	return "  " + pad(safe(step), doing) + "  " + style.Faint(fmt.Sprintf("%*s", timeColumns, seconds(took)))
}

// StillAtWork returns the same for a log.
func StillAtWork(what, step string, took time.Duration) string {
	line := fmt.Sprintf("%s, after %s", what, seconds(took))
	if step != "" {
		line += ": " + step
	}
	return safe(line)
}
