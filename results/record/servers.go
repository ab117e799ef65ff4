package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/mock"
)

// servers records the servers of a trial, in the form in which package mock plays them.
func servers(dir evidence.Dir, t evidence.Trial) (map[string]*cassette.Side, []string, error) {
	all := map[string]*recordedServer{}
	for _, s := range t.Servers {
		if !s.Mocked { // the answers of mocks are in the eval
			all[s.Name] = &recordedServer{name: s.Name, open: map[string][]*request{}}
		}
	}
	for f, err := range dir.Frames() {
		if err != nil {
			return nil, nil, err
		}
		if s := all[f.Server]; s != nil && f.Side != evidence.SideAgent {
			s.frame(f)
		}
	}
	if err := readFiles(dir, t, all); err != nil {
		return nil, nil, err
	}
	sides := map[string]*cassette.Side{}
	var left []string
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		side := s.side()
		left, errs = append(left, s.left()...), append(errs, s.wrong...)
		if len(side.Entries) > 0 {
			sides[name] = side
		}
	}
	return sides, left, errors.Join(errs...)
}

// recordedServer is the record of a server.
type recordedServer struct {
	name     string
	open     map[string][]*request // unanswered requests, by conversation and ID
	asked    []*request            // in order of the requests
	unasked  int                   // number of messages that the server sent without a request
	files    []cassette.Entry
	unlooked []string // files that could not be read for a grader
	wrong    []error
}

// request is a request to a server with its answer.
type request struct {
	frame   evidence.Frame // without its bytes
	method  string
	members map[string]any
	params  json.RawMessage
	version string          // protocol version agreed on by initialize
	value   json.RawMessage // the answer; nil if there is none
	lost    string          // why there is no answer, if the server should have given one
	marks   []string        // names of secrets in the answer
}

// what describes a request in messages.
func (q *request) what() string {
	if tool, ok := q.members["tool"].(string); ok {
		return fmt.Sprintf("call of %s (frame %d)", text.Quote(tool, 64), q.frame.Seq)
	}
	return fmt.Sprintf("request %s (frame %d)", text.Quote(q.method, 64), q.frame.Seq)
}

func (s *recordedServer) refuse(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Errorf("server %q: "+format, append([]any{s.name}, args...)...))
}

// frame reads a message.
func (s *recordedServer) frame(f evidence.Frame) {
	switch {
	case f.Truncated > 0:
		s.refuse("frame %d cannot be played: %d bytes of it were not kept", f.Seq, f.Truncated)
		return
	case f.Synthetic != "" && len(f.Raw) == 0: // the open requests get no answer
		for _, open := range s.open {
			for _, q := range open {
				q.lost = string(f.Synthetic)
			}
		}
		clear(s.open)
		return
	case f.Dir == evidence.ToServer:
		messages, _, err := jsonrpc.Parse(f.Raw)
		if err != nil {
			return // no server answers it
		}
		for _, m := range messages {
			s.sent(f, m)
		}
		return
	}
	messages, _, err := jsonrpc.Hear(f.Raw)
	if err != nil {
		s.unasked++
		return
	}
	for _, m := range messages {
		s.heard(f, m)
	}
}

// sent records a request.
func (s *recordedServer) sent(f evidence.Frame, m jsonrpc.Message) {
	if !m.IsRequest() {
		return
	}
	if f.RedactedEnvelope {
		s.refuse("frame %d cannot be played: a secret was replaced in what is asked for", f.Seq)
		return
	}
	q := &request{frame: f, method: m.Method, members: mock.Request(m.Method, m.Params), params: bytes.Clone(m.Params)}
	marks := secret.Within(f.Raw, f.Spans, "params")
	delete(marks, "_meta")
	if names := slices.Concat(slices.Collect(maps.Values(marks))...); len(names) > 0 && m.Method != "initialize" {
		s.refuse("the %s cannot be played: it was sent %s, which is not on record, so nobody can tell whether it is sent again; give the server what it needs of it by itself", q.what(), secret.Describe(names))
		return
	}
	q.frame.Raw = nil
	key := f.Conn + "\x00" + m.ID.Key
	s.open[key] = append(s.open[key], q)
	s.asked = append(s.asked, q)
}

// heard records the answer to a request.
func (s *recordedServer) heard(f evidence.Frame, m jsonrpc.Message) {
	if m.Method != "" {
		s.unasked++
		return
	}
	key := f.Conn + "\x00" + m.ID.Key
	if twin := f.Conn + "\x00" + m.ID.Twin(); len(s.open[key]) == 0 {
		key = twin
	}
	if len(s.open[key]) == 0 {
		return // already answered
	}
	q := s.open[key][0]
	s.open[key] = s.open[key][1:]
	switch {
	case f.Synthetic == evidence.SyntheticTimeout, f.Synthetic == evidence.SyntheticTransport, f.Synthetic == evidence.SyntheticExpired:
		q.lost = string(f.Synthetic)
	case f.Synthetic != "": // the proxy's own answer, which it will give again
	case m.Error != nil:
		q.value = compact(`{"error":`, m.Error)
	case m.Result != nil:
		q.value = compact(`{"result":`, m.Result)
		q.version = jsontext.Word(jsontext.Member(m.Result, "protocolVersion"))
	default:
		q.lost = "an answer that is no JSON-RPC"
	}
	if f.Redacted > 0 {
		q.marks = slices.Sorted(maps.Keys(f.Secrets))
	}
}

// compact returns an object with a single member: head, which ends before its value, and the value without
// white space.
func compact(head string, value []byte) json.RawMessage {
	var b bytes.Buffer
	b.WriteString(head)
	if json.Compact(&b, value) != nil {
		return nil
	}
	return append(b.Bytes(), '}')
}

// isStanding reports whether a method asks what a server offers and does not make it act. The answer is given
// to any number of requests, since clients may ask at any time.
func isStanding(method string) bool {
	return method == "initialize" || method == "server/discover" || strings.HasSuffix(method, "/list")
}

// side returns the requests and answers, in the order of the requests.
func (s *recordedServer) side() *cassette.Side {
	side := &cassette.Side{}
	others := false               // someone other than the agent makes the server act
	last := map[string]*request{} // last request of each standing kind
	changed := map[string]bool{}  // whether the answers to a standing request differ
	var initialize *request
	for _, q := range s.asked {
		switch {
		case q.value == nil, q.method == "ping":
		case q.method == "initialize":
			if initialize == nil || q.version > initialize.version {
				initialize = q
			}
		case isStanding(q.method):
			key := textOf(q.entry(false))
			changed[key] = changed[key] || last[key] != nil && !bytes.Equal(last[key].value, q.value)
			last[key] = q
		case !q.frame.OfAgent():
			others = true
		}
	}
	if initialize != nil {
		e := initialize.entry(false)
		e.Answer = &cassette.Answer{Value: initialize.value}
		side.Entries = append(side.Entries, e)
	}
	for _, q := range s.asked {
		if q.value == nil || q.method == "ping" || q.method == "initialize" {
			continue
		}
		e := q.entry(others && !isStanding(q.method))
		e.Answer, e.Times = &cassette.Answer{Value: q.value}, 1
		if isStanding(q.method) {
			switch key := textOf(q.entry(false)); {
			case q == last[key]:
				e.Times = 0
			case !changed[key]:
				continue
			}
		}
		side.Entries = append(side.Entries, e)
	}
	side.Entries = append(side.Entries, s.files...)
	return side
}

// entry returns the entry for a request, without its answer.
func (q *request) entry(bySender bool) cassette.Entry {
	e := cassette.Entry{Kind: match.Matchers{}}
	if tool, ok := q.members["tool"].(string); ok {
		e.Kind["tool"] = literal(tool)
	} else {
		e.Kind["method"] = literal(q.method)
	}
	if bySender {
		by := q.frame.Sender
		if q.frame.OfAgent() {
			by = evidence.SenderAgent
		}
		e.Kind["sender"] = literal(string(by))
	}
	for _, name := range []string{"arguments", "params"} {
		if value, given := q.members[name]; given {
			e.Match = match.Matchers{name: cassette.Matcher("equals", value)}
		}
	}
	return e
}

// literal returns a text as the value of a condition.
func literal(text string) json.RawMessage { return json.RawMessage(textOf(text)) }

// agree sets the answer to initialize in all sides of a server to the one with the newest protocol version,
// if the answers differ only in the version: the version depends on the client's request.
func agree(all tasks) {
	var newest json.RawMessage
	each := func(do func(*cassette.Answer)) {
		for _, trials := range all {
			for _, t := range trials {
				for _, e := range t.side.Entries {
					if string(e.Kind["method"]) == `"initialize"` {
						do(e.Answer)
					}
				}
			}
		}
	}
	version := func(value json.RawMessage) string {
		return jsontext.Word(jsontext.Member(jsontext.Member(value, "result"), "protocolVersion"))
	}
	without := func(value json.RawMessage) string {
		parsed, _ := jsontext.Decode(value).(map[string]any)
		if result, ok := parsed["result"].(map[string]any); ok {
			delete(result, "protocolVersion")
		}
		return jsontext.Encode(parsed)
	}
	each(func(a *cassette.Answer) {
		if newest == nil || cmp.Or(strings.Compare(version(a.Value), version(newest)), strings.Compare(string(a.Value), string(newest))) > 0 {
			newest = a.Value
		}
	})
	each(func(a *cassette.Answer) {
		if without(a.Value) == without(newest) {
			a.Value = newest
		}
	})
}

// left describes the parts of the record that cannot be played.
func (s *recordedServer) left() (all []string) {
	for _, q := range s.asked {
		switch {
		case q.lost != "" && q.frame.Sender == evidence.SenderRunner && q.members["tool"] == nil: // waza repeats it until the server is up
		case q.lost != "":
			all = append(all, fmt.Sprintf("server %q: the %s got no answer (%s)", s.name, q.what(), q.lost))
		case len(q.marks) > 0:
			all = append(all, fmt.Sprintf("server %q: in the answer to the %s, marks stand for %s", s.name, q.what(), secret.Describe(q.marks)))
		}
	}
	if s.unasked > 0 {
		all = append(all, fmt.Sprintf("server %q: %s that it sent without being asked", s.name, text.Count(s.unasked, "message")))
	}
	for _, file := range s.unlooked {
		all = append(all, fmt.Sprintf("server %q: the file %s, which could not be looked at", s.name, file))
	}
	return all
}

// readFiles records what graders read of servers' files.
func readFiles(dir evidence.Dir, t evidence.Trial, servers map[string]*recordedServer) error {
	steps, err := stepsOf(dir, t)
	if err != nil {
		return err
	}
	for _, step := range steps {
		var ask evidence.FileAsk
		if step.Kind != evidence.StepFiles || jsontext.Unmarshal(step.Ask, &ask) != nil || servers[ask.Server] == nil {
			continue
		}
		s, value := servers[ask.Server], compact(`{"result":`, step.Answer)
		if step.Error != "" || value == nil {
			s.unlooked = append(s.unlooked, path.Clean(ask.Path))
			continue
		}
		s.files = append(s.files, cassette.Entry{
			Kind: match.Matchers{"file": literal(ask.Path)}, Match: match.Matchers{"content": json.RawMessage(strconv.FormatBool(ask.Content))},
			Times: 1, Answer: &cassette.Answer{Value: value},
		})
	}
	return nil
}
