package grading

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/tree"
)

// StateConfig configures the state grader, which checks the final state of a server. After the agent has
// stopped, the runner looks at files in the server's container and calls its tools. Each expectation about a
// file or an answer is one check.
type StateConfig struct {
	Server string      `json:"server" jsonschema:"name of the server"`
	Files  []StateFile `json:"files,omitempty" jsonschema:"up to 100 files in its container; only with --isolate"`
	Calls  []StateCall `json:"calls,omitempty" jsonschema:"up to 100 tool calls that the runner makes to it, in order"`
}

// StateFile is the expected file at a path in a server's container.
type StateFile struct {
	Path     string            `json:"path" jsonschema:"absolute path in the server's container"`
	Exists   *bool             `json:"exists,omitempty" jsonschema:"whether something must be at the path; with false no other key is allowed; default true"`
	Contains Names             `json:"contains,omitempty" jsonschema:"strings that the file must contain, one or a list"`
	Matches  Names             `json:"matches,omitempty" jsonschema:"RE2 expressions that must match somewhere in the file, one or a list"`
	JSON     *match.ArgsConfig `json:"json,omitempty" jsonschema:"expected content of the file as a JSON object, written like args of mcp_compliance"`
}

// StateCall is a call by the runner with its expected response.
type StateCall struct {
	Tool      string            `json:"tool" jsonschema:"exact name of the tool, which may be hidden from the agent"`
	Arguments json.RawMessage   `json:"arguments,omitempty" jsonschema:"arguments of the call, an object"`
	Timeout   int               `json:"timeout,omitempty" min:"0" max:"3600" jsonschema:"time limit in seconds; default 30"`
	Error     bool              `json:"error,omitempty" jsonschema:"true if the call must fail, with a tool error or a protocol error"`
	Contains  Names             `json:"contains,omitempty" jsonschema:"strings that the text of the result must contain, one or a list"`
	Matches   Names             `json:"matches,omitempty" jsonschema:"RE2 expressions that must match somewhere in the text of the result, one or a list"`
	Result    *match.ArgsConfig `json:"result,omitempty" jsonschema:"expected result as JSON, from its structured content or else its text, written like args of mcp_compliance"`
}

// Validate refuses an empty config and invalid entries.
func (c *StateConfig) Validate() error {
	var errs []error
	if len(c.Files)+len(c.Calls) == 0 {
		return errEmpty
	}
	for i, f := range c.Files {
		errs = append(errs, within(fmt.Sprintf("files[%d]", i), f.validate()))
	}
	for i, call := range c.Calls {
		errs = append(errs, within(fmt.Sprintf("calls[%d]", i), call.validate()))
	}
	return errors.Join(errs...)
}

func (f StateFile) validate() error {
	clean := path.Clean(f.Path)
	switch {
	case !path.IsAbs(f.Path) || strings.ContainsRune(f.Path, 0) || clean == "/":
		return fmt.Errorf("path: %q must be an absolute path in the server's container", f.Path)
	case !f.expected() && f.readable():
		return errors.New("exists: false cannot be combined with contains, matches or json")
	}
	return expectations(f.Contains, f.Matches, "json", f.JSON)
}

func (c StateCall) validate() error {
	arguments := map[string]json.RawMessage{}
	if len(c.Arguments) > 0 && (jsontext.Unmarshal(c.Arguments, &arguments) != nil || arguments == nil) {
		return errors.New("arguments: must be an object")
	}
	return expectations(c.Contains, c.Matches, "result", c.Result)
}

// expectations refuses expectations that cannot be checked.
func expectations(contains, matches Names, field string, value *match.ArgsConfig) error {
	errs := []error{compilable("matches", matches)}
	for i, text := range contains {
		if text == "" {
			errs = append(errs, fmt.Errorf("contains[%d]: empty", i))
		}
	}
	if value != nil {
		_, err := value.Compile()
		errs = append(errs, within(field, err))
	}
	return errors.Join(errs...)
}

// Servers names the server whose state is checked.
func (c *StateConfig) Servers() []string { return []string{c.Server} }

func (f StateFile) expected() bool { return f.Exists == nil || *f.Exists }

// readable reports whether the config has expectations about the file's content.
func (f StateFile) readable() bool { return len(f.Contains)+len(f.Matches) > 0 || f.JSON != nil }

func (c *StateConfig) fileAsk(f StateFile) evidence.FileAsk {
	return evidence.FileAsk{Server: c.Server, Path: path.Clean(f.Path), Content: f.readable()}
}

// callAsk returns the ith call as an ask. Calls are numbered because equal calls may get different answers.
func (c *StateConfig) callAsk(i int) evidence.CallAsk {
	call := c.Calls[i]
	return evidence.CallAsk{
		Number: i + 1, Server: c.Server, Tool: call.Tool, Arguments: call.Arguments, Seconds: cmp.Or(call.Timeout, defaultSeconds),
	}
}

func (c *StateConfig) asks() []any {
	var all []any
	seen := map[evidence.FileAsk]bool{}
	for _, f := range c.Files {
		if ask := c.fileAsk(f); !seen[ask] {
			seen[ask] = true
			all = append(all, ask)
		}
	}
	for i := range c.Calls {
		all = append(all, c.callAsk(i))
	}
	return all
}

// tools implements tooled.
func (c *StateConfig) tools() (all []evidence.ToolRef) {
	for _, call := range c.Calls {
		all = append(all, evidence.ToolRef{Server: c.Server, Tool: call.Tool})
	}
	return all
}

func (c *StateConfig) grade(s *subject) (report, error) {
	var r report
	for _, f := range c.Files {
		var found evidence.FileAnswer
		if err := s.answer(c.fileAsk(f), &found); err != nil {
			r.lacks(err)
			continue
		}
		f.judge(&r, c.Server, found)
	}
	var asked []string
	for i, call := range c.Calls {
		var a evidence.CallAnswer
		if err := s.answer(c.callAsk(i), &a); err != nil {
			r.lacks(err)
			continue
		}
		asked = append(asked, a.Process)
		call.judge(&r, c.Server, a)
	}
	if len(asked) > 0 {
		r.details = map[string]any{"asked": asked}
	}
	return r, nil
}

func (f StateFile) judge(r *report, server string, found evidence.FileAnswer) {
	where := fmt.Sprintf("%s in the container of server %s", quote(f.Path), quote(server))
	there := describeFound(found)
	if !f.expected() {
		r.check("files", found.Kind == "", "Expected nothing at %s; there is %s.", where, there)
		return
	}
	exists := found.Kind != "" && found.At == ""
	r.check("files", exists, "Expected %s; there is %s.", where, there)
	if !f.readable() {
		return
	}
	content := checkedText{what: where, shown: true}
	switch {
	case !exists:
		content.unread, content.why = true, "there is "+there
	case found.Unread != "":
		content.unread, content.why = true, found.Unread
	case found.Content != nil:
		content.text = *found.Content
	}
	content.contains(r, "contains", f.Contains...)
	content.matches(r, "matches", f.Matches...)
	if f.JSON != nil {
		content.fits(r, "json", *f.JSON)
	}
}

// describeFound describes the kind of file at a path.
func describeFound(found evidence.FileAnswer) string {
	kind := map[string]string{
		"": "nothing", tree.File: "a file", tree.Directory: "a directory",
		tree.Link: "a symbolic link, and those are not followed", tree.Special: "a special file",
	}[found.Kind]
	if found.At != "" {
		kind = fmt.Sprintf("on the way, at %s, %s", quote(found.At), kind)
	}
	return kind
}

func (c StateCall) judge(r *report, server string, a evidence.CallAnswer) {
	who := fmt.Sprintf("%s of server %s", quote(c.Tool), quote(server))
	failed := a.Outcome == evidence.OutcomeToolError || a.Outcome == evidence.OutcomeProtocolError
	answered := failed || a.Outcome == evidence.OutcomeOK
	text := answerText(a)
	switch {
	case !answered:
		r.check("calls", false, "Expected an answer from %s; it was a %s: %s.", who, a.Outcome, strings.TrimSuffix(a.Message, "."))
	case c.Error:
		r.check("calls", failed, "Expected %s to fail; it answered %s.", who, quote(text))
	default:
		r.check("calls", !failed, "Expected %s to succeed; it was a %s: %s.", who, a.Outcome, quote(text))
	}
	answer := checkedText{what: "the answer of " + who, text: text, unread: !answered, why: "there is no answer", shown: true}
	answer.contains(r, "contains", c.Contains...)
	answer.matches(r, "matches", c.Matches...)
	if c.Result != nil {
		answer.text = string(answerValue(a, text))
		answer.fits(r, "result", *c.Result)
	}
}

// fits parses the text as JSON and checks the value.
func (p checkedText) fits(r *report, key string, wanted match.ArgsConfig) {
	args, err := wanted.Compile()
	switch {
	case err != nil:
		r.check(key, false, "Could not compare %s: %v.", p.what, err)
	case p.unread:
		r.check(key, false, "Could not compare %s: %s.", p.what, p.why)
	case !jsontext.Valid([]byte(p.text)):
		r.check(key, false, "Expected %s to be JSON; it is %s.", p.what, quote(p.text))
	default:
		fit := args.Check(json.RawMessage(p.text))
		if fit.Full() {
			r.check(key, true, "Expected the values of %s; it has them.", p.what)
			return
		}
		r.check(key, false, "Unexpected content of %s: %s.", p.what, join(fit.Differences, "; "))
	}
}

// answerText returns the text of a result's content, or the message of an error.
func answerText(a evidence.CallAnswer) string {
	if a.Outcome == evidence.OutcomeProtocolError {
		return cmp.Or(jsontext.Text(jsontext.Member(a.Error, "message")), string(a.Error), a.Message)
	}
	return capture.Text(a.Result)
}

// answerValue returns an answer as JSON: the structured content of a result, or else its text.
func answerValue(a evidence.CallAnswer, text string) json.RawMessage {
	if structured := jsontext.Member(a.Result, "structuredContent"); structured != nil && string(structured) != "null" {
		return structured
	}
	return json.RawMessage(text)
}
