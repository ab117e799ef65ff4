package egress

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits bounds the connections of one container; 0 stands for the default.
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

// allowance is what is left of the limits of one container.
type allowance struct {
	limits Limits
	now    func() time.Time

	pace *rate.Limiter // of connections that begin

	mu    sync.Mutex
	open  int   // guarded by mu
	spent int64 // guarded by mu
}

func newAllowance(l Limits, now func() time.Time) *allowance {
	l = l.orDefaults()
	return &allowance{limits: l, now: now, pace: rate.NewLimiter(rate.Limit(l.Rate), l.Rate)}
}

// begin counts a connection until end. It returns why the connection may not begin; empty if it
// may.
func (a *allowance) begin() (why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.spent >= a.limits.Bytes:
		return a.exceeded()
	case a.open >= a.limits.Connections:
		return fmt.Sprintf("its container has %d connections at once, its limit", a.limits.Connections)
	case !a.pace.AllowN(a.now(), 1):
		return fmt.Sprintf("its container begins more than %d connections a second, its limit", a.limits.Rate)
	}
	a.open++
	return ""
}

func (a *allowance) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
}

// spend counts bytes. It returns why they may not cross; empty if they may.
func (a *allowance) spend(n int) (why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.spent += int64(n); a.spent > a.limits.Bytes {
		return a.exceeded()
	}
	return ""
}

func (a *allowance) exceeded() string {
	return fmt.Sprintf("its container carries more than %d bytes, its limit", a.limits.Bytes)
}
