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

// Clock is a time in seconds, or in minutes and seconds.
func Clock(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	d = d.Round(time.Second)
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}
