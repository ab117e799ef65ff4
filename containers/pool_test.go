package containers

import (
	"strconv"
	"testing"
)

// A pool hands out each name once, and what was never handed out does not come back.
func TestPool(t *testing.T) {
	p := newPool(strconv.Itoa)
	for n := range usersOfRun {
		if got := p.get(); got != strconv.Itoa(n) {
			t.Fatalf("name %d is %q", n, got)
		}
	}
	p.put(p.get()) // none is left
	p.put("7")
	if got, more := p.get(), p.get(); got != "7" || more != "" {
		t.Errorf("after 7 came back: %q and %q", got, more)
	}
}
