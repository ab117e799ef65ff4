package guests

import (
	"strconv"
	"testing"
)

// A pool hands out each name once, and what was never handed out does not come back.
func TestPool(t *testing.T) {
	p := NewPool(strconv.Itoa)
	for n := range MaxContainers {
		if got := p.Get(); got != strconv.Itoa(n) {
			t.Fatalf("name %d is %q", n, got)
		}
	}
	p.Put(p.Get()) // none is left
	p.Put("7")
	if got, more := p.Get(), p.Get(); got != "7" || more != "" {
		t.Errorf("after 7 came back: %q and %q", got, more)
	}
}
