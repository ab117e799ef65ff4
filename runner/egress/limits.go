package egress

import (
	"fmt"
	"sync"
	"time"
)

// Limits bound what the connections of one box come to; 0 stands for the default.
type Limits struct {
	Connections int   `json:"connections,omitempty"` // at once; 64
	Rate        int   `json:"rate,omitempty"`        // new ones a second; 50
	Bytes       int64 `json:"bytes,omitempty"`       // both ways together; 256 MiB
}

func (l Limits) orDefaults() Limits {
	if l.Connections <= 0 {
		l.Connections = 64
	}
	if l.Rate <= 0 {
		l.Rate = 50
	}
	if l.Bytes <= 0 {
		l.Bytes = 256 << 20
	}
	return l
}

// allowance is what is left of the limits of one box.
type allowance struct {
	limits Limits
	now    func() time.Time

	mu     sync.Mutex
	open   int       // guarded by mu
	spent  int64     // guarded by mu
	tokens float64   // connections that may begin now; guarded by mu
	at     time.Time // when tokens was true; guarded by mu
}

func newAllowance(l Limits, now func() time.Time) *allowance {
	l = l.orDefaults()
	return &allowance{limits: l, now: now, tokens: float64(l.Rate), at: now()}
}

// begin counts a connection in, until end. It says why it may not begin, or nothing.
func (a *allowance) begin() (why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	a.tokens = min(a.tokens+now.Sub(a.at).Seconds()*float64(a.limits.Rate), float64(a.limits.Rate))
	a.at = now
	switch {
	case a.spent >= a.limits.Bytes:
		return a.exceeded()
	case a.open >= a.limits.Connections:
		return fmt.Sprintf("its box has %d connections at once, its limit", a.limits.Connections)
	case a.tokens < 1:
		return fmt.Sprintf("its box begins more than %d connections a second, its limit", a.limits.Rate)
	}
	a.tokens--
	a.open++
	return ""
}

func (a *allowance) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
}

// spend counts bytes, which may cross where it says nothing.
func (a *allowance) spend(n int) (why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.spent += int64(n); a.spent > a.limits.Bytes {
		return a.exceeded()
	}
	return ""
}

func (a *allowance) exceeded() string {
	return fmt.Sprintf("its box carries more than %d bytes, its limit", a.limits.Bytes)
}
