package view

import (
	"testing"
	"time"
)

func TestDollars(t *testing.T) {
	for amount, want := range map[float64]string{0: "$0.0000", 0.00004: "$0.0000", 0.1107: "$0.1107", 0.99994: "$0.9999", 0.99996: "$1.00", 12.345: "$12.35", 1234.5: "$1234.50"} {
		if got := Dollars(amount); got != want {
			t.Errorf("%v: %s, want %s", amount, got, want)
		}
	}
}

func TestClock(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ms", 40 * time.Microsecond: "0ms", 420 * time.Microsecond: "0.4ms", 999 * time.Microsecond: "1ms", 340 * time.Millisecond: "340ms", 999_400 * time.Microsecond: "999ms", 999_600 * time.Microsecond: "1.0s", 59_940 * time.Millisecond: "59.9s", 59_960 * time.Millisecond: "1m00s",
		3*time.Minute + 7*time.Second: "3m07s", time.Hour - time.Millisecond: "1h00m", 3 * time.Hour: "3h00m", 25*time.Hour + 59*time.Minute + 40*time.Second: "26h00m",
	} {
		if got := Clock(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
