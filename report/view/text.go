package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// Unknown is shown for an unknown figure.
const Unknown = "n/a"

// Share formats a count and its total, such as 2/3.
func Share(count, of int) string { return fmt.Sprintf("%d/%d", count, of) }

// Rate formats a rate as a count and its total, or returns [Unknown] for nil.
func Rate(r *results.Rate) string {
	if r == nil {
		return Unknown
	}
	return Share(r.Count, r.Of)
}

// Interval formats a rate in percent with its interval.
func Interval(i results.Interval) string {
	return fmt.Sprintf("%.0f%% [%.0f%%, %.0f%%]", 100*i.Mean, 100*i.Lower, 100*i.Upper)
}

// Legends of pictures of intervals.
const (
	IntervalLegend   = "A bar is a 95% interval, in which the figure of many more trials is likely to be; the line in it is the figure."
	DifferenceLegend = "A bar around a dotted line is the 95% interval of a difference; the dotted line is no difference."
)

// Cost formats an amount in US dollars, or returns [Unknown] for nil.
func Cost(amount *float64) string {
	if amount == nil {
		return Unknown
	}
	return Dollars(*amount)
}

// Dollars formats an amount of US dollars: with four decimals below one dollar, otherwise
// with two.
func Dollars(amount float64) string {
	if amount < 0.99995 {
		return fmt.Sprintf("$%.4f", amount)
	}
	return fmt.Sprintf("$%.2f", amount)
}

// Clock formats a duration in milliseconds if it is shorter than a second, with a decimal below one
// millisecond; otherwise in seconds, in minutes and seconds, or in hours and minutes. Like durations in eval
// files, the text has no spaces.
func Clock(d time.Duration) string {
	if tenth := d.Round(100 * time.Microsecond); tenth > 0 && tenth < time.Millisecond {
		return fmt.Sprintf("%.1fms", float64(tenth)/float64(time.Millisecond))
	}
	if short := d.Round(time.Millisecond); short < time.Second {
		return fmt.Sprintf("%dms", short.Milliseconds())
	}
	if tenths := d.Round(100 * time.Millisecond); tenths < time.Minute {
		return fmt.Sprintf("%.1fs", tenths.Seconds())
	}
	if seconds := d.Round(time.Second); seconds < time.Hour {
		return fmt.Sprintf("%dm%02ds", int(seconds.Minutes()), int(seconds.Seconds())%60)
	}
	minutes := int(d.Round(time.Minute).Minutes())
	return fmt.Sprintf("%dh%02dm", minutes/60, minutes%60)
}

// Left formats an estimated remaining time.
func Left(d time.Duration) string {
	switch minutes := int((d + 30*time.Second) / time.Minute); {
	case d < time.Minute:
		return "less than 1 min left"
	case minutes < 60:
		return fmt.Sprintf("about %d min left", minutes)
	default:
		return fmt.Sprintf("about %d h %02d min left", minutes/60, minutes%60)
	}
}

// MS formats milliseconds as Clock does, or returns [Unknown] for nil.
func MS(ms *float64) string {
	if ms == nil {
		return Unknown
	}
	return Clock(time.Duration(*ms * float64(time.Millisecond)))
}

// Bytes formats a size in a binary unit, to three digits.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	size, units := float64(n), "KMGTPE"
	i := -1
	for size >= unit && i < len(units)-1 {
		size /= unit
		i++
	}
	return threeDigits(size) + " " + units[i:i+1] + "iB"
}

// threeDigits formats a number to about three digits.
func threeDigits(f float64) string {
	switch {
	case f >= 99.95:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case f >= 9.995:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

// maxShownLabel is the maximum length of a label in bytes.
const maxShownLabel = 120

// LabelTexts formats labels, sorted by name: strings verbatim, other values as compact
// JSON.
func LabelTexts(labels map[string]json.RawMessage) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		var s string
		if json.Unmarshal(labels[name], &s) != nil {
			var line bytes.Buffer
			if json.Compact(&line, labels[name]) == nil {
				s = line.String()
			}
		}
		all = append(all, text.Shorten(name+" "+s, maxShownLabel))
	}
	return all
}

// Lack returns by how much a metric is below its threshold, as a phrase to follow the metric's name.
func Lack(m results.Measure) string {
	return fmt.Sprintf("is %.3f, less than its threshold, %.3f", m.Value, m.Threshold)
}
