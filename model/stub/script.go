// Package stub is a model that follows a script, in the formats of four model APIs.
//
// The position in a conversation is derived from the conversation itself: the IDs of tool
// calls contain the turn that made them. So a request that is retried gets the same
// response, and many conversations can run at once. Only scripted failures are remembered,
// since they leave no trace in a conversation.
//
// A script is read into a side of a cassette: an entry for each aside and for each beginning of a
// conversation, and then one for each turn.
//
// It does not understand language, and estimates tokens by the length of text.
package stub

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/template"
)

// Script is the behavior of a model, turn by turn.
type Script struct {
	models        []string
	conversations []conversation
	side          cassette.Side
	callsTools    bool // in any turn
}

// document is the content of a script's file.
type document struct {
	Models        []string           `json:"models,omitempty"`
	Turns         []turnEntry        `json:"turns,omitempty"`
	Conversations []conversationText `json:"conversations,omitempty"`
	Asides        []aside            `json:"asides,omitempty"`
}

type conversationText struct {
	Name  string      `json:"name,omitempty"`
	When  condition   `json:"when,omitzero"`
	Turns []turnEntry `json:"turns"`
}

// aside is the response to a request that is not part of a task.
type aside struct {
	When condition `json:"when"`
	Say  string    `json:"say"`
}

// turnEntry is an answer, or what happens in place of one.
type turnEntry struct {
	Say   *string             `json:"say,omitempty"`
	Call  *callEntry          `json:"call,omitempty"`
	Calls []callEntry         `json:"calls,omitempty"`
	Usage *usageEntry         `json:"usage,omitempty"`
	Delay strictyaml.Duration `json:"delay,omitempty"`

	Fail  *failure            `json:"fail,omitempty"`
	Stall strictyaml.Duration `json:"stall,omitempty"`
	Cut   string              `json:"cut,omitempty" enum:"reset half"`
}

type callEntry struct {
	Tool      string          `json:"tool"`
	Server    string          `json:"server,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

type usageEntry struct {
	Input  int64 `json:"input" min:"0" max:"1000000000"`
	Output int64 `json:"output" min:"0" max:"1000000000"`
	Cached int64 `json:"cached,omitempty" min:"0" max:"1000000000"`
}

// failure is a provider's error.
type failure struct {
	Status     int      `json:"status" min:"400" max:"599"`
	Message    string   `json:"message,omitempty"`
	RetryAfter *float64 `json:"retry_after,omitempty" min:"0" max:"3600"` // seconds
}

// Parse reads a script. Errors name the file, and contain the position of every mistake.
func Parse(file string, data []byte) (*Script, error) {
	doc, err := strictyaml.Parse(file, data)
	if err != nil {
		return nil, err
	}
	var d document
	if doc.Decode(&d); doc.Err() != nil {
		return nil, doc.Err() // a missing value of a misspelled key is not reported separately
	}
	s := compiler{doc}.script(d)
	if err := doc.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// conversation contains what is needed to recognize its turns in a history.
type conversation struct {
	name  string
	turns []turn
}

// turn is an answer of a conversation.
type turn struct {
	say  template.Text
	call *callEntry // the first
	end  bool       // nothing follows the troubles
}

// line is the value of an entry: what the model says, or what happens instead.
type line struct {
	Conversation *int            `json:"conversation,omitempty"` // index of the conversation that begins here
	Say          json.RawMessage `json:"say,omitempty"`
	Calls        []callEntry     `json:"calls,omitempty"`
	Usage        *usageEntry     `json:"usage,omitempty"`

	Fail    *failure `json:"fail,omitempty"`
	Cut     string   `json:"cut,omitempty"`      // begin the answer and break it off
	StallMS int64    `json:"stall_ms,omitempty"` // begin the answer and pause in the middle for this long
}

// defaultModel is the model of a script that names none.
const defaultModel = "stub-1"

type compiler struct{ doc *strictyaml.Document }

func (c compiler) script(d document) *Script {
	s := &Script{models: d.Models}
	for i, name := range d.Models {
		if name == "" {
			c.doc.Problemf(strictyaml.Path{"models", i}, "models[%d] must not be empty", i)
		}
	}
	if len(s.models) == 0 {
		s.models = []string{defaultModel}
	}
	switch {
	case c.doc.Has("turns") && c.doc.Has("conversations"):
		c.doc.KeyProblemf(strictyaml.Path{"turns"}, "turns and conversations are both here; put these turns last under conversations, without when")
	case len(d.Turns) == 0 && len(d.Conversations) == 0:
		c.doc.Problemf(strictyaml.Path{}, "nothing is scripted; write turns, or conversations with turns")
	}
	for i, entry := range d.Asides {
		if entry.When == (condition{}) {
			c.doc.Problemf(strictyaml.Path{"asides", i, "when"}, "asides[%d].when has no condition, so nothing else would be played; add one", i)
		}
		s.begin(entry.When, line{Say: encoded(entry.Say)})
	}
	if len(d.Turns) > 0 {
		c.conversation(s, strictyaml.Path{"turns"}, conversationText{Turns: d.Turns})
	}
	for i, entry := range d.Conversations {
		path := strictyaml.Path{"conversations", i}
		if entry.When == (condition{}) && i+1 < len(d.Conversations) {
			c.doc.Problemf(path, "conversations[%d] has no when, so those after it are never played; put it last", i)
		}
		c.conversation(s, path.With("turns"), entry)
	}
	if c.doc.Err() == nil {
		if err := s.side.Compile(); err != nil {
			c.doc.Problemf(strictyaml.Path{}, "%v", err)
		}
	}
	return s
}

// Members of a request that conditions of entries refer to.
const (
	memberConversation = "conversation"
	memberTurn         = "turn" // from 1, or beginning
	beginning          = 0      // may begin a conversation, or match an aside
)

// number returns n as a value of a request.
func number(n int) json.Number { return json.Number(strconv.Itoa(n)) }

func encoded(v any) json.RawMessage {
	data, _ := jsontext.Marshal(v) // v was decoded, so it always marshals
	return data
}

// begin adds an entry for requests that meet a condition.
func (s *Script) begin(when condition, given line) {
	e := cassette.Entry{Kind: match.Matchers{memberTurn: cassette.Matcher("equals", beginning)}, Match: when.conditions()}
	e.Answer = &cassette.Answer{Value: encoded(given)}
	s.side.Entries = append(s.side.Entries, e)
}

// add adds an entry for the last turn of made, the conversation that follows those of s.
func (s *Script) add(made conversation, delay strictyaml.Duration, given line, times int) {
	s.side.Entries = append(s.side.Entries, cassette.Entry{
		Kind: match.Matchers{
			memberConversation: cassette.Matcher("equals", len(s.conversations)),
			memberTurn:         cassette.Matcher("equals", len(made.turns)),
		},
		Times: times, Template: given.Fail == nil,
		Answer: &cassette.Answer{Value: encoded(given), DelayMS: int(milliseconds(delay))},
	})
}

// milliseconds returns d in milliseconds, at least 1 unless d is 0.
func milliseconds(d strictyaml.Duration) int64 {
	return time.Duration(d + strictyaml.Duration(time.Millisecond) - 1).Milliseconds()
}

// conversation adds a conversation: each answer with the troubles before it.
func (c compiler) conversation(s *Script, path strictyaml.Path, text conversationText) {
	s.begin(text.When, line{Conversation: new(len(s.conversations))})
	made := conversation{name: text.Name}
	var troubles []turnEntry
	for i, entry := range text.Turns {
		at := path.With(i)
		switch {
		case !c.oneKind(at, entry):
		case entry.isTrouble():
			troubles = append(troubles, entry)
		default:
			one, given := c.answer(at, entry)
			made.turns = append(made.turns, one)
			s.troubles(made, troubles, given)
			s.add(made, entry.Delay, given, 0)
			s.callsTools = s.callsTools || one.call != nil
			troubles = nil
		}
	}
	if troubles != nil {
		made.turns = append(made.turns, turn{end: true})
		s.troubles(made, troubles, line{Say: encoded(neutral)})
	}
	s.conversations = append(s.conversations, made)
}

// troubles adds entries for the troubles before an answer, each of which happens once.
func (s *Script) troubles(made conversation, troubles []turnEntry, answer line) {
	for _, t := range troubles {
		given := answer
		given.Cut, given.StallMS = t.Cut, milliseconds(t.Stall)
		if t.Fail != nil {
			given = line{Fail: t.Fail}
			given.Fail.Message = cmp.Or(t.Fail.Message, "the script fails this request: "+http.StatusText(t.Fail.Status))
		}
		s.add(made, t.Delay, given, 1)
	}
}

func (t turnEntry) isTrouble() bool { return t.Fail != nil || t.Stall != 0 || t.Cut != "" }

// oneKind reports whether a turn does one thing, and adds a problem if it does not.
func (c compiler) oneKind(at strictyaml.Path, t turnEntry) bool {
	count := func(keys ...string) (found int) {
		for _, key := range keys {
			if c.doc.Has(at.With(key)...) {
				found++
			}
		}
		return found
	}
	troubles, calls := count("fail", "stall", "cut"), count("call", "calls")
	switch {
	case troubles > 1 || troubles == 1 && calls+count("say", "usage") > 0:
		c.doc.Problemf(at, "%s does more than one thing; write fail, stall and cut as turns of their own, before the answer", at)
	case troubles+calls+count("say") == 0:
		c.doc.Problemf(at, "%s does nothing; give it one of say, call, calls, fail, stall, cut", at)
	case calls > 1:
		c.doc.Problemf(at, "%s has both call and calls; put all into calls", at)
	case t.Calls != nil && len(t.Calls) == 0:
		c.doc.Problemf(at, "%s.calls must not be empty", at)
	default:
		return true
	}
	return false
}

// answer returns a turn, and the value of its entry.
func (c compiler) answer(at strictyaml.Path, t turnEntry) (made turn, given line) {
	given = line{Calls: t.Calls, Usage: t.Usage}
	if t.Say != nil {
		given.Say = encoded(*t.Say)
		made.say = c.template(at.With("say"), *t.Say)
	}
	if t.Usage != nil && t.Usage.Cached > t.Usage.Input {
		c.doc.Problemf(at, "%s.usage: cached is a part of input and must not be more", at)
	}
	for i, entry := range t.Calls {
		c.arguments(at.With("calls", i, "arguments"), entry)
	}
	if t.Call != nil {
		c.arguments(at.With("call", "arguments"), *t.Call)
		given.Calls = []callEntry{*t.Call}
	}
	if len(given.Calls) > 0 {
		made.call = &given.Calls[0]
	}
	return made, given
}

// arguments checks the arguments of a call.
func (c compiler) arguments(at strictyaml.Path, call callEntry) {
	if call.Arguments == nil {
		return
	}
	arguments, err := jsontext.Parse(call.Arguments)
	if _, object := arguments.(map[string]any); err != nil || !object {
		c.doc.Problemf(at, "%s must be a mapping", at)
		return
	}
	template.Read(at, arguments, c.template)
}

// inTemplates are the variables of templates: the text of the last result, and of all results.
var inTemplates = []string{"result", "results"}

func (c compiler) template(at strictyaml.Path, s string) template.Text {
	made, err := template.Parse(s, inTemplates)
	if err != nil {
		c.doc.Problemf(at, "%s: %v", at, err)
	}
	return made
}

// condition is a condition on a request: all fields that are not empty must match.
type condition struct {
	PromptContains string `json:"prompt_contains,omitempty"` // in any text of the user
	SystemContains string `json:"system_contains,omitempty"`
	ResultContains string `json:"result_contains,omitempty"` // in the result of any tool
	Tool           string `json:"tool,omitempty"`            // an offered tool's name ends with it
	Model          string `json:"model,omitempty"`           // the requested model
}

// conditions returns the condition in the form of an entry's, on the members of a request.
func (c condition) conditions() match.Matchers {
	all := match.Matchers{}
	add := func(member, matcher, value string) {
		if value != "" {
			all[member] = cassette.Matcher(matcher, value)
		}
	}
	add("prompt", "contains", c.PromptContains)
	add("system", "contains", c.SystemContains)
	add("results", "contains", c.ResultContains)
	add("model", "equals", c.Model)
	if c.Tool != "" {
		add("tools", "regex", `(?m)(?:^|[^A-Za-z0-9])`+regexp.QuoteMeta(c.Tool)+`$`)
	}
	return all
}

// members returns the members that conditions refer to: texts of the request, and the names of its
// tools, one per line.
func (r *request) members() map[string]any {
	results, tools := make([]string, len(r.reported)), make([]string, len(r.tools))
	for i, one := range r.reported {
		results[i] = one.text
	}
	for i, t := range r.tools {
		tools[i] = t.String()
	}
	return map[string]any{
		memberTurn: number(beginning), "model": r.Model, "system": r.System, "prompt": r.prompt,
		"results": strings.Join(results, "\n"), "tools": strings.Join(tools, "\n"),
	}
}
