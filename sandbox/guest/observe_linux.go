package guest

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// observer sees what the watched programs of this container do.
type observer struct {
	mu      sync.Mutex
	ledger  *observe.Ledger // nil before the first program; guarded by mu
	watcher *watcher        // nil where the kernel does not tell; guarded by mu
	dirs    []string        // guarded by mu
	before  *listing        // guarded by mu
}

// begin lists directories before the first program. It returns nil where programs and
// connections cannot be watched.
func (o *observer) begin(dirs []string) *watcher {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ledger != nil {
		return o.watcher
	}
	o.ledger, o.dirs, o.before = observe.NewLedger(), dirs, list(dirs)
	var err error
	if o.watcher, err = newWatcher(o.ledger); err != nil {
		o.ledger.Lack(observe.Programs, err.Error())
		o.ledger.Lack(observe.Connections, err.Error())
	}
	return o.watcher
}

func (o *observer) seen() observe.Seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ledger == nil {
		return observe.Seen{}
	}
	seen := o.ledger.Seen()
	list(o.dirs).since(o.before, &seen)
	return seen
}

func (s *servant) observe(l *link) error {
	return stream(l, func(w io.Writer) error { return json.NewEncoder(w).Encode(s.observer.seen()) })
}
