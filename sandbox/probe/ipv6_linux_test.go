package probe

import "testing"

func TestHasTentative(t *testing.T) {
	const settled = "fe80000000000000004263fffed046a0 05 40 20 80  docker0\n00000000000000000000000000000001 01 80 10 80       lo\n"
	for table, want := range map[string]bool{
		"":      false,
		settled: false,
		"x":     false,
		settled + "fe80000000000000004263fffed046a1 06 40 20 c0     eth0\n": true,
		settled + "fe80000000000000004263fffed046a1 06 40 20 40     eth0\n": true,
	} {
		if got := hasTentative(table); got != want {
			t.Errorf("%q: %t", table, got)
		}
	}
}
