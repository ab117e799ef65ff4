package words

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 trials", 1: "1 trial", 2: "2 trials", 12345: "12345 trials"} {
		if got := Count(n, "trial"); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
