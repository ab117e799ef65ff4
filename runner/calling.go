package runner

import (
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/text"
)

// Calling is where the agent's calls of tools stand while it is at work, for whoever
// watches. What became of them the evidence tells.
type Calling struct {
	// Server and Tool are of the latest call that waits for its answer, or else of the one
	// that has just got it.
	Server, Tool string
	Open         int // calls that wait
	Calls        int // so far
}

// maxOpenCalls is how many calls that wait are told apart.
const maxOpenCalls = 64

// callWatch follows the calls of one attempt at a trial.
type callWatch struct {
	secrets *redact.Set
	tell    func(Calling)

	mu    sync.Mutex // held while telling, so that what is told is in order
	calls int        // guarded by mu
	count int        // of those that wait; guarded by mu
	open  []openCall // the latest of them; guarded by mu
}

type openCall struct {
	number       int
	server, tool string
}

// called is told of a call, and the function it returns of its end.
func (w *callWatch) called(server, tool string) (over func()) {
	tool, _ = w.secrets.Cut(strings.ToValidUTF8(text.Shorten(tool, maxToolName), "\uFFFD"))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	w.count++
	call := openCall{w.calls, server, tool}
	if len(w.open) == maxOpenCalls {
		w.open = slices.Delete(w.open, 0, 1)
	}
	w.open = append(w.open, call)
	w.tellLocked(call)
	return func() { w.over(call) }
}

func (w *callWatch) over(call openCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count--
	w.open = slices.DeleteFunc(w.open, func(c openCall) bool { return c.number == call.number })
	if n := len(w.open); n > 0 {
		call = w.open[n-1]
	}
	w.tellLocked(call)
}

func (w *callWatch) tellLocked(c openCall) {
	w.tell(Calling{Server: c.server, Tool: c.tool, Open: w.count, Calls: w.calls})
}
