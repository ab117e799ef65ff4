package capture

import (
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/model/dialect"
)

// metaOfClaude is the key under which Claude Code sends the ID that executor llm sends as
// [input.MetaToolUse].
const metaOfClaude = "claudecode/toolUseId"

func namedUse(params map[string]json.RawMessage) string {
	meta, _ := members(params["_meta"])
	return cmp.Or(jsontext.Text(meta[metaOfClaude]), jsontext.Text(meta[input.MetaToolUse]))
}

// statusRefused is the HTTP status with which the gateway refuses a request beyond a limit.
const statusRefused = 429

// asked is what the models of a trial asked for.
type asked struct {
	uses []*use
	// reached has the times when a model was first shown n results under a key, at index
	// n-1. A key is that of a use, or of a tool if uses have no IDs.
	reached map[string][]time.Time
	results int         // entries of reached
	starts  []time.Time // of requests, in order
	seqs    int         // number of recorded model calls
	last    int         // largest number of a model call
	blind   bool        // any part of the record may be missing
	// blindFrom is when the first unreadable response began; zero if there is none.
	blindFrom time.Time
}

// use is a tool that a model asked for.
type use struct {
	turn  int
	id    string
	name  string
	form  string    // canonical form of its arguments
	from  time.Time // when the response with it began
	end   time.Time // when that response ended
	until time.Time // when a model was shown its result; zero if never
	next  time.Time // when a model was next asked anything, if until is zero; zero if never
	key   string    // key of its result
	had   int       // number of results under the key that the model had already been shown
	call  int       // index of the call that is tied to it, or none
}

// maxResults is the maximum number of tracked results.
const maxResults = 1 << 20

// readAsked reads the model calls of a trial in any order.
func readAsked(models iter.Seq2[evidence.ModelCall, error]) *asked {
	a := &asked{reached: map[string][]time.Time{}}
	for call, err := range models {
		if err != nil {
			a.blind = true
			break
		}
		a.seqs, a.last = a.seqs+1, max(a.last, call.Seq)
		if call.IsTurn() {
			a.add(call)
		}
	}
	a.blind = a.blind || a.seqs != a.last
	slices.SortFunc(a.starts, time.Time.Compare)
	for _, u := range a.uses {
		a.close(u)
	}
	slices.SortStableFunc(a.uses, func(x, y *use) int { return x.turn - y.turn })
	return a
}

// close sets until, or next, of a use.
func (a *asked) close(u *use) {
	if times := a.reached[u.key]; u.had < len(times) && times[u.had].After(u.from) {
		u.until = times[u.had]
		return
	}
	if i, _ := slices.BinarySearchFunc(a.starts, u.end, time.Time.Compare); i < len(a.starts) {
		u.next = a.starts[i]
	}
}

func (a *asked) add(call evidence.ModelCall) {
	had := map[string]int{}
	request, err := dialect.ReadRequest(call.Dialect, call.Path, call.Request)
	if err == nil {
		for _, item := range request.Items {
			for _, result := range item.Results {
				had[result.Key()]++
			}
		}
	}
	a.starts = append(a.starts, call.Start)
	for key, count := range had {
		a.reach(key, count, call.Start)
	}
	refused := call.Outcome == evidence.ModelBudget && call.Status == statusRefused
	if refused || len(call.Response) == 0 && call.Truncated == 0 {
		return
	}
	response, err := dialect.ReadResponse(call.Dialect, call.Status, call.ContentType, call.Response)
	if unread(call, err) && (a.blindFrom.IsZero() || call.Start.Before(a.blindFrom)) {
		a.blindFrom = call.Start
	}
	from := call.Start
	if !call.FirstByte.IsZero() {
		from = call.FirstByte
	}
	for _, asks := range response.Uses {
		key := asks.Key()
		form, _ := jsontext.Canonical(asks.Arguments)
		a.uses = append(a.uses, &use{
			turn: call.Seq, id: asks.ID, name: asks.Name, form: form, from: from, end: call.End, key: key, had: had[key], call: none,
		})
	}
}

// unread reports whether the agent may have read more of a response than the record lets us read; err is the
// error of reading the record. If the provider's response was cut off, the agent got no more of it either.
func unread(call evidence.ModelCall, err error) bool {
	return call.Truncated > 0 || errors.Is(err, dialect.ErrTooLarge) || err != nil && call.Outcome == evidence.ModelOK
}

// reach records the time of a request with count results under a key.
func (a *asked) reach(key string, count int, at time.Time) {
	times := a.reached[key]
	for i := range times[:min(count, len(times))] {
		if at.Before(times[i]) {
			times[i] = at
		}
	}
	for len(times) < count {
		if a.results == maxResults {
			a.blind = true
			return
		}
		times = append(times, at)
		a.results++
	}
	a.reached[key] = times
}
