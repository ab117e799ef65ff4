// Package recorded plays recorded answers of models in place of their providers.
//
// [Record] makes a side of a cassette from the requests of a trial's agent to each provider, and a
// [Player] answers from a side. Requests are identified by their [Digest]; their content is kept to
// show how another request differs. A stream is played event by event, without the time between
// events.
//
// It does not know the gateway, which limits, counts and records played calls like those to a
// provider.
package recorded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/sse"
)

// Members of a request that conditions of entries refer to.
const (
	memberForm    = "form"    // the kind of request: such as "messages stream tools"
	memberRequest = "request" // its digest
)

// answer is the value of an entry: a model's answer and its request.
type answer struct {
	Status      int      `json:"status,omitempty"` // HTTP status; 0 if the agent left before it
	ContentType string   `json:"content_type,omitempty"`
	Body        string   `json:"body,omitempty"`
	BodyB64     []byte   `json:"body_b64,omitempty"` // in place of body if that is not text
	Events      []string `json:"events,omitempty"`   // in place of body: the events of a stream, without blank lines
	Left        bool     `json:"left,omitempty"`     // the agent closed the connection after this
	Asked       asked    `json:"asked,omitzero"`
}

// asked contains the parts of a request, to show how another one differs: the number of parts that
// it shares with an earlier request, and the following parts. Requests are named by the beginnings
// of their digests.
type asked struct {
	Request string                       `json:"request,omitempty"`
	Like    string                       `json:"like,omitempty"` // the earlier request
	First   int                          `json:"first,omitempty"`
	Then    []map[string]json.RawMessage `json:"then,omitempty"` // each part by its name
}

// Record returns the sides of the models that a trial's agent asked, by provider. notes are
// sentences about calls that were left out, or from which secrets were removed. A call that is not
// completely recorded is an error.
func Record(calls iter.Seq2[evidence.ModelCall, error]) (sides map[string]*cassette.Side, notes []string, err error) {
	var all []evidence.ModelCall
	for call, err := range calls {
		if err != nil {
			return nil, nil, err
		}
		all = append(all, call)
	}
	slices.SortStableFunc(all, func(a, b evidence.ModelCall) int { return a.Seq - b.Seq })
	recorders := map[string]*recorder{}
	for _, call := range all {
		r := recorders[call.Provider]
		if r == nil {
			r = &recorder{side: &cassette.Side{}, lists: map[string]bool{}}
			recorders[call.Provider] = r
		}
		note, err := r.add(call)
		if err != nil {
			return nil, nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	sides = map[string]*cassette.Side{}
	for name, r := range recorders {
		if err := r.side.Compile(); err != nil {
			return nil, nil, fmt.Errorf("model %s: %w", name, err)
		}
		sides[name] = r.side
	}
	return sides, notes, nil
}

// recorder makes a side from the calls to one provider.
type recorder struct {
	side     *cassette.Side
	requests []request       // of each entry
	lists    map[string]bool // digests of requests that are not turns
}

// add adds an entry for a call. It returns a note if the user should know something about the call.
func (r *recorder) add(call evidence.ModelCall) (note string, err error) {
	name := fmt.Sprintf("request %d to the model provider %q", call.Seq, call.Provider)
	switch {
	case call.Truncated > 0:
		return "", fmt.Errorf("%s: %d bytes of it are not in the record, so it cannot be played", name, call.Truncated)
	case call.Fault != "" && call.Fault != evidence.FaultDelay:
		return name + " is left out, since it had the fault " + string(call.Fault), nil
	case call.Outcome == evidence.ModelTransport, call.Outcome == evidence.ModelBudget:
		return fmt.Sprintf("%s is left out, since the provider gave it no complete answer: %s", name, call.Error), nil
	}
	made := read(asItIs, call.Method, call.Path, call.Request)
	value := answerOf(call)
	value.Asked = r.asked(made)
	e := cassette.Entry{
		Kind:   match.Matchers{memberForm: cassette.Matcher("equals", made.form)},
		Match:  match.Matchers{memberRequest: cassette.Matcher("equals", made.digest)},
		Answer: &cassette.Answer{},
	}
	written, err := jsontext.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	e.Answer.Value = cassette.Legible(written)
	switch {
	case call.IsTurn():
		e.Times = 1
	case r.lists[made.digest]:
		return "", nil
	}
	r.lists[made.digest] = true
	r.side.Entries, r.requests = append(r.side.Entries, e), append(r.requests, made)
	if call.Redacted > 0 {
		note = name + " has lost secrets: its answer is played without them, and a request that has them differs"
	}
	return note, nil
}

func asItIs(w io.Writer, doc []byte) error {
	_, err := w.Write(doc)
	return err
}

// eventEnd ends an event of a stream.
const eventEnd = "\n\n"

// answerOf returns the answer that the agent received.
func answerOf(call evidence.ModelCall) answer {
	a := answer{Status: call.Status, ContentType: call.ContentType, Left: call.Outcome == evidence.ModelCancelled}
	body := string(call.Response)
	events, whole := strings.CutSuffix(body, eventEnd)
	switch {
	case !utf8.ValidString(body):
		a.BodyB64 = call.Response
	case sse.IsContentType(call.ContentType) && whole:
		a.Events = strings.Split(events, eventEnd)
	default:
		a.Body = body
	}
	return a
}

// parts returns the parts of an answer that are sent separately. Joined, they are the body.
func (a answer) parts() (all []string) {
	for _, event := range a.Events {
		all = append(all, event+eventEnd)
	}
	rest := append([]byte(a.Body), a.BodyB64...)
	if !sse.IsContentType(a.ContentType) {
		return append(all, string(rest))
	}
	var scan sse.Scanner
	for len(rest) > 0 {
		n, _ := scan.Scan(rest)
		all = append(all, string(rest[:n]))
		rest = rest[n:]
	}
	return all
}

// lookBack is the number of earlier requests that a request is compared with, to store only the
// parts that it adds.
const lookBack = 8

// asked returns the parts of a request relative to one of the last requests.
func (r *recorder) asked(made request) asked {
	if len(made.parts) == 0 {
		return asked{}
	}
	a := asked{Request: made.digest[:shortDigest]}
	for _, before := range r.requests[max(0, len(r.requests)-lookBack):] {
		if same := commonParts(before.parts, made.parts); same >= a.First && same > 0 {
			a.Like, a.First = before.digest[:shortDigest], same
		}
	}
	for _, p := range made.parts[a.First:] {
		a.Then = append(a.Then, map[string]json.RawMessage{p.at: json.RawMessage(p.value)})
	}
	return a
}

// shortDigest is the number of characters of a digest that name a request.
const shortDigest = 12

// commonParts returns the number of parts that a and b have in common at their beginnings.
func commonParts(a, b []part) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// maxParts is the maximum number of parts of all entries of a side.
const maxParts = 1 << 20

// requestsOf returns the parts of the requests of a side's entries, as far as they are known. It
// returns an error for values that cannot be played.
func requestsOf(side *cassette.Side) ([][]part, error) {
	all := make([][]part, len(side.Entries))
	known := map[string][]part{}
	total := 0
	for i, e := range side.Entries {
		answers := e.Answers
		if e.Answer != nil {
			answers = []cassette.Answer{*e.Answer}
		}
		for _, given := range answers {
			a, err := readAnswer(given.Value)
			if err == nil {
				all[i], err = a.Asked.parts(known[a.Asked.Like])
			}
			if total += len(all[i]); err == nil && total > maxParts {
				err = fmt.Errorf("the requests up to it have more than %d parts", maxParts)
			}
			if err != nil {
				return nil, fmt.Errorf("entries[%d]: %w", i, err)
			}
			if a.Asked.Request != "" {
				known[a.Asked.Request] = all[i]
			}
		}
	}
	return all, nil
}

// parts returns the parts of a request, given those of the earlier request that it refers to.
func (a asked) parts(like []part) ([]part, error) {
	all := slices.Clone(like[:max(0, min(a.First, len(like)))])
	for _, named := range a.Then {
		for _, at := range slices.Sorted(maps.Keys(named)) {
			value, err := jsontext.Parse(named[at])
			if err != nil {
				return nil, fmt.Errorf("asked: %s: %w", at, err)
			}
			all = append(all, part{at, jsontext.Encode(value)})
		}
	}
	return all, nil
}

// readAnswer reads the value of an entry.
func readAnswer(value json.RawMessage) (a answer, err error) {
	if err := jsontext.Unmarshal(value, &a); err != nil {
		return a, fmt.Errorf("its value is no model's answer: %w", err)
	}
	bodies := 0
	for _, has := range []bool{a.Body != "", len(a.BodyB64) > 0, len(a.Events) > 0} {
		if has {
			bodies++
		}
	}
	switch {
	case a.Status == 0 && !a.Left, a.Status != 0 && (a.Status < 200 || a.Status > 599):
		return a, fmt.Errorf("status %d is none that ends a request; write one from 200 to 599", a.Status)
	case bodies > 1:
		return a, errors.New("give it one of body, body_b64 and events")
	case strings.ContainsAny(a.ContentType, "\r\n\x00"):
		return a, errors.New("content_type has a line break or a NUL")
	}
	return a, nil
}
