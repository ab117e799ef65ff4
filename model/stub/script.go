// Package stub is a model that follows a script, in the formats of four model APIs.
//
// The position in a conversation is derived from the conversation itself: the IDs of tool
// calls contain the turn that made them. So a request that is retried gets the same
// response, and many conversations can run at once. Only scripted failures are remembered,
// since they leave no trace in a conversation.
//
// It does not understand language, and estimates tokens by the length of text.
package stub

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/model/dialect"
)

// Script is the behavior of a model, turn by turn.
type Script struct {
	models        []string
	conversations []conversation
	asides        []aside
	when          *cassette.Player // finds an entry for each aside, and then for each conversation
}

// document is a script as its file has it.
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

// failure is an error that a provider would send.
type failure struct {
	Status     int      `json:"status" min:"400" max:"599"`
	Message    string   `json:"message,omitempty"`
	RetryAfter *float64 `json:"retry_after,omitempty" min:"0" max:"3600"` // seconds
}

// Parse reads a script. Errors call the file by its name and have the place of every mistake.
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

// conversation is the sequence of turns of a conversation.
type conversation struct {
	name  string
	steps []step
}

// step is a response and the failures before it.
type step struct {
	troubles []trouble
	answer   *line // nil: nothing follows the troubles
}

// line is the text and the calls of one turn.
type line struct {
	say   textTemplate
	calls []call
	usage *dialect.Usage // nil: counted
	delay time.Duration
}

// call is a tool call of the model.
type call struct {
	tool, server string
	arguments    any // JSON with a template in place of each string
}

// trouble is what happens in place of an answer, once.
type trouble struct {
	delay time.Duration
	fail  *failure
	stall time.Duration // begin the answer, and stop in the middle for so long
	cut   string        // begin the answer, and break off
}

// defaultModel is the model of a script that names none.
const defaultModel = "stub-1"

type compiler struct{ doc *strictyaml.Document }

func (c compiler) script(d document) *Script {
	s := &Script{models: d.Models, asides: d.Asides}
	var when cassette.Side
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
	if len(d.Turns) > 0 {
		s.conversations = []conversation{{steps: c.steps(strictyaml.Path{"turns"}, d.Turns)}}
	}
	for _, entry := range d.Asides {
		when.Entries = append(when.Entries, entry.When.entry())
	}
	if len(d.Turns) > 0 {
		when.Entries = append(when.Entries, condition{}.entry())
	}
	for i, entry := range d.Conversations {
		path := strictyaml.Path{"conversations", i}
		if entry.When == (condition{}) && i+1 < len(d.Conversations) {
			c.doc.Problemf(path, "conversations[%d] has no when, so those after it are never played; put it last", i)
		}
		steps := c.steps(strictyaml.Path{"conversations", i, "turns"}, entry.Turns)
		s.conversations = append(s.conversations, conversation{entry.Name, steps})
		when.Entries = append(when.Entries, entry.When.entry())
	}
	for i, entry := range d.Asides {
		if entry.When == (condition{}) {
			c.doc.Problemf(strictyaml.Path{"asides", i, "when"}, "asides[%d].when has no condition, so nothing else would be played; add one", i)
		}
	}
	if err := when.Compile(); err != nil {
		c.doc.Problemf(strictyaml.Path{}, "%v", err)
	}
	s.when = when.Play()
	return s
}

// steps gathers turns: each answer with the troubles before it.
func (c compiler) steps(path strictyaml.Path, turns []turnEntry) []step {
	var steps []step
	var troubles []trouble
	for i, entry := range turns {
		at := path.With(i)
		if !c.oneKind(at, entry) {
			continue
		}
		if entry.isTrouble() {
			troubles = append(troubles, c.trouble(entry))
			continue
		}
		steps = append(steps, step{troubles, c.line(at, entry)})
		troubles = nil
	}
	if troubles != nil {
		steps = append(steps, step{troubles: troubles})
	}
	return steps
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

func (c compiler) trouble(t turnEntry) trouble {
	if t.Fail != nil && t.Fail.Message == "" {
		t.Fail.Message = "the script fails this request: " + http.StatusText(t.Fail.Status)
	}
	return trouble{delay: time.Duration(t.Delay), fail: t.Fail, stall: time.Duration(t.Stall), cut: t.Cut}
}

func (c compiler) line(at strictyaml.Path, t turnEntry) *line {
	made := &line{delay: time.Duration(t.Delay)}
	if t.Say != nil {
		made.say = c.template(at.With("say"), *t.Say)
	}
	if t.Usage != nil {
		made.usage = &dialect.Usage{Input: t.Usage.Input, Output: t.Usage.Output, Cached: t.Usage.Cached}
		if t.Usage.Cached > t.Usage.Input {
			c.doc.Problemf(at, "%s.usage: cached is a part of input and must not be more", at)
		}
	}
	if t.Call != nil {
		made.calls = []call{c.call(at.With("call"), *t.Call)}
	}
	for i, entry := range t.Calls {
		made.calls = append(made.calls, c.call(at.With("calls", i), entry))
	}
	return made
}

func (c compiler) call(at strictyaml.Path, entry callEntry) call {
	made := call{tool: entry.Tool, server: entry.Server, arguments: map[string]any{}}
	if entry.Arguments == nil {
		return made
	}
	at = at.With("arguments")
	arguments, err := jsontext.Parse(entry.Arguments)
	if _, object := arguments.(map[string]any); err != nil || !object {
		c.doc.Problemf(at, "%s must be a mapping", at)
		return made
	}
	made.arguments = c.templates(at, arguments)
	return made
}

// condition is what must hold of a request: every field that is not empty.
type condition struct {
	PromptContains string `json:"prompt_contains,omitempty"` // what the user said, anywhere
	SystemContains string `json:"system_contains,omitempty"`
	ResultContains string `json:"result_contains,omitempty"` // what some tool answered
	Tool           string `json:"tool,omitempty"`            // one is offered whose name ends so
	Model          string `json:"model,omitempty"`           // as the request names it
}

// entry returns the condition as that of an entry, on the members of a request.
func (c condition) entry() cassette.Entry {
	e := cassette.Entry{Match: match.Matchers{}, Answer: &cassette.Answer{}}
	add := func(member, matcher, value string) {
		if value != "" {
			e.Match[member] = cassette.Matcher(matcher, value)
		}
	}
	add("prompt", "contains", c.PromptContains)
	add("system", "contains", c.SystemContains)
	add("results", "contains", c.ResultContains)
	add("model", "equals", c.Model)
	if c.Tool != "" {
		add("tools", "regex", `(?m)(?:^|[^A-Za-z0-9])`+regexp.QuoteMeta(c.Tool)+`$`)
	}
	return e
}

// members returns what conditions are on: texts of the request, and the names of its tools, one a line.
func (r *request) members() map[string]any {
	results, tools := make([]string, len(r.reported)), make([]string, len(r.tools))
	for i, one := range r.reported {
		results[i] = one.text
	}
	for i, t := range r.tools {
		tools[i] = t.String()
	}
	return map[string]any{
		"model": r.Model, "system": r.System, "prompt": r.prompt,
		"results": strings.Join(results, "\n"), "tools": strings.Join(tools, "\n"),
	}
}
