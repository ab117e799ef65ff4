package egress

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
)

const (
	// maxEvents is the number of attempts of a container that are recorded individually.
	maxEvents = 1000
	// maxName is the number of bytes recorded of a name, which is chosen by the container.
	maxName = 255
)

// ledger records attempts: the first ones individually, and the number of further ones.
type ledger struct {
	container string
	record    func(evidence.Event)

	mu       sync.Mutex
	reported int // guarded by mu
	omitted  int // guarded by mu
}

func (l *ledger) add(e evidence.Egress) {
	l.mu.Lock()
	if l.reported == maxEvents {
		l.omitted++
		l.mu.Unlock()
		return
	}
	l.reported++
	l.mu.Unlock()
	l.record(l.event(e))
}

func (l *ledger) event(e evidence.Egress) evidence.Event {
	e.Name = strings.ToValidUTF8(text.Shorten(e.Name, maxName), "�")
	return evidence.Event{Kind: "egress", Where: l.container, Message: sentence(e), Data: data(e)}
}

// close records the number of attempts not recorded individually.
func (l *ledger) close() {
	if rest, some := l.rest(); some {
		l.record(rest)
	}
}

// rest returns the event for the attempts not recorded individually, if there are any.
func (l *ledger) rest() (evidence.Event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return evidence.Event{
		Kind: "egress", Where: l.container, Message: fmt.Sprintf("%d more attempts to leave are not recorded individually", l.omitted),
		Data: map[string]any{evidence.DataOmitted: l.omitted},
	}, l.omitted > 0
}

func sentence(e evidence.Egress) string {
	to := fmt.Sprintf("%s port %d", e.Name, e.Port)
	switch {
	case !e.Allowed:
		return fmt.Sprintf("%s was refused: %s", to, e.Why)
	case e.Why != "":
		return fmt.Sprintf("%s: %s; %d bytes out, %d in", to, e.Why, e.Out, e.In)
	}
	return fmt.Sprintf("%s, %d bytes out, %d in", to, e.Out, e.In)
}

// data returns e as a map by JSON key.
func data(e evidence.Egress) map[string]any {
	text, err := json.Marshal(e)
	if err != nil { // plain data always marshals
		panic(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(text, &keys); err != nil {
		panic(err)
	}
	return keys
}

// Limits limits the connections of one container; 0 means the default.
type Limits struct {
	Connections int   `json:"connections,omitempty"` // concurrent connections; default 64
	Rate        int   `json:"rate,omitempty"`        // new connections per second; default 50
	Bytes       int64 `json:"bytes,omitempty"`       // in both directions together; default 256 MiB
}

// allowance tracks the use of one container's limits.
type allowance struct {
	limits Limits
	now    func() time.Time

	pace *rate.Limiter // for new connections

	mu    sync.Mutex
	open  int   // guarded by mu
	spent int64 // guarded by mu
}

func newAllowance(l Limits, now func() time.Time) *allowance {
	l = Limits{cmp.Or(max(l.Connections, 0), 64), cmp.Or(max(l.Rate, 0), 50), cmp.Or(max(l.Bytes, 0), 256<<20)}
	return &allowance{limits: l, now: now, pace: rate.NewLimiter(rate.Limit(l.Rate), l.Rate)}
}

// begin counts a connection until end is called. It returns why the connection is refused,
// or "".
func (a *allowance) begin() (why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.spent >= a.limits.Bytes:
		return a.exceeded()
	case a.open >= a.limits.Connections:
		return fmt.Sprintf("its container has reached its limit of %d concurrent connections", a.limits.Connections)
	case !a.pace.AllowN(a.now(), 1):
		return fmt.Sprintf("its container has exceeded its limit of %d new connections per second", a.limits.Rate)
	}
	a.open++
	return ""
}

func (a *allowance) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
}

// spend counts bytes. It returns why they must not be transferred, or "".
func (a *allowance) spend(n int) (why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.spent += int64(n); a.spent > a.limits.Bytes {
		return a.exceeded()
	}
	return ""
}

func (a *allowance) exceeded() string {
	return fmt.Sprintf("its container has exceeded its limit of %d bytes", a.limits.Bytes)
}
