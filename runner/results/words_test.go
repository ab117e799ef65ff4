package results

import "testing"

func TestDollars(t *testing.T) {
	for amount, want := range map[float64]string{0: "$0.0000", 0.00004: "$0.0000", 0.1107: "$0.1107", 0.99994: "$0.9999", 0.99996: "$1.00", 12.345: "$12.35", 1234.5: "$1234.50"} {
		if got := Dollars(amount); got != want {
			t.Errorf("%v: %s, want %s", amount, got, want)
		}
	}
}
