package trial

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/mcp/answer"
)

// Limits of the questions of a trial.
const (
	maxQuestions = 10_000
	maxShownText = 1 << 10 // bytes of a request in an event
)

// answers answers the requests of servers that a built-in agent forwards, and records them.
type answers struct {
	table   answer.Table
	rec     eventRecorder
	secrets *secret.Set
	acted   *atomic.Bool // set when an answer is given

	mu    sync.Mutex
	given int    // guarded by mu
	unmet string // how the first wrong request violates its schema; guarded by mu
}

// ServeHTTP answers a question.
func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "only POST is answered", http.StatusMethodNotAllowed)
		return
	}
	q, err := answer.ReadQuestion(r.Body)
	if err != nil {
		http.Error(w, fmt.Sprintf("cannot be answered: %v", err), http.StatusBadRequest)
		return
	}
	reply, ok := a.answer(q)
	if !ok {
		http.Error(w, "the agent has asked for more answers than it may", http.StatusTooManyRequests)
		return
	}
	a.acted.Store(true)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(reply)
}

// answer returns the answer to a question and records it. It returns false if the question exceeds
// the limits.
func (a *answers) answer(q input.Question) (input.Reply, bool) {
	reply := a.table.Reply(q)
	said := string(reply.Result)
	if reply.Result == nil {
		said = fmt.Sprintf("error %d: %s", reply.Code, reply.Message)
	}
	short := func(text string) string { return beginning(text, maxShownText, a.secrets) }
	event := evidence.Event{
		Kind: evidence.EventAnswer, Where: short(q.Server),
		Message: short(q.Kind+" "+string(q.Params)) + " is answered " + short(said),
		Data:    map[string]any{"unmet": reply.Unmet != ""},
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.given++; a.given > maxQuestions {
		return reply, false
	}
	if a.unmet == "" {
		a.unmet = reply.Unmet
	}
	a.rec.Event(event)
	return reply, true
}

// firstUnmet returns how the first wrong request of a server violated its schema, or "".
func (a *answers) firstUnmet() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unmet
}
