package capture

import (
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/jsonvalue"
	"github.com/waza-isolate/waza/model/dialect"
)

// MetaToolUse is the member of a request's _meta in which executor llm names the model's
// id of the tool use that a call is for; metaOfClaude is that of Claude Code.
const (
	MetaToolUse  = "waza/toolUseId"
	metaOfClaude = "claudecode/toolUseId"
)

func namedUse(params map[string]json.RawMessage) string {
	meta, _ := members(params["_meta"])
	return cmp.Or(jsontext.Text(meta[metaOfClaude]), jsontext.Text(meta[MetaToolUse]))
}

// statusRefused is what the gateway answers in place of a provider, beyond a limit (429).
const statusRefused = 429

// asked is what models asked for in a trial.
type asked struct {
	uses []*use
	// reached is when a conversation first had so many results under one key: those
	// of one use, or of one tool where uses have no ids.
	reached map[string][]time.Time
	results int         // entries of reached
	starts  []time.Time // of requests, in order
	seqs    int         // model calls on record
	last    int         // the largest number of one
	blind   bool        // all of it may be missing something
	// blindFrom is when the first answer began that cannot be read; zero is none.
	blindFrom time.Time
}

// use is a tool that a model asked for.
type use struct {
	turn  int
	id    string
	name  string
	form  string    // of its arguments, in canonical form
	from  time.Time // nobody knew of it before
	end   time.Time // of the answer
	until time.Time // its result was there when the model was asked again; zero is never
	next  time.Time // where until is zero: when a model was asked next, whatever for; zero is never
	key   string    // under which its result comes
	had   int       // results under the key that the model was shown before
	call  int       // index of the call that is tied to it, or none
}

// maxResults is how many results are kept track of.
const maxResults = 1 << 20

// readAsked reads the model calls of a trial in whatever order.
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

// close finds when the time of a use ends.
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
		form, _ := jsonvalue.Canonical(asks.Arguments)
		a.uses = append(a.uses, &use{
			turn: call.Seq, id: asks.ID, name: asks.Name, form: form, from: from, end: call.End, key: key, had: had[key], call: none,
		})
	}
}

// unread reports whether the agent may have read more of an answer than we, who failed with
// err. Of one that was cut off it had no more either.
func unread(call evidence.ModelCall, err error) bool {
	return call.Truncated > 0 || errors.Is(err, dialect.ErrTooLarge) || err != nil && call.Outcome == evidence.ModelOK
}

// reach notes that a request of that time shows a model so many results.
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
