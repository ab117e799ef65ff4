package results

import (
	"fmt"
	"time"
)

// Dollars is an amount of US dollars: to a hundredth of a cent where it is less than a
// dollar, else to a cent.
func Dollars(amount float64) string {
	if amount < 0.99995 {
		return fmt.Sprintf("$%.4f", amount)
	}
	return fmt.Sprintf("$%.2f", amount)
}

// Clock is a time in seconds, in minutes and seconds, or in hours and minutes.
func Clock(d time.Duration) string {
	if tenths := d.Round(100 * time.Millisecond); tenths < time.Minute {
		return fmt.Sprintf("%.1fs", tenths.Seconds())
	}
	if seconds := d.Round(time.Second); seconds < time.Hour {
		return fmt.Sprintf("%dm%02ds", int(seconds.Minutes()), int(seconds.Seconds())%60)
	}
	minutes := int(d.Round(time.Minute).Minutes())
	return fmt.Sprintf("%dh%02dm", minutes/60, minutes%60)
}
