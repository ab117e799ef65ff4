// Package answer answers the requests of MCP servers to their client (elicitation, sampling and
// roots) from the table under answers in a task.
//
// The built-in agents ask the runner, which has the table, for each answer. This keeps the JSON
// Schema library out of their executable, which is process 1 of every container. This package does
// not know about trials or networks.
package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/schema"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// Table has the answers to requests, by server.
type Table map[string]Server

// Server has the answers to the requests of one server. Requests without an answer are rejected.
type Server struct {
	Elicitation *Answer `json:"elicitation,omitempty" jsonschema:"answer to elicitation/create"`
	Sampling    *Answer `json:"sampling,omitempty" jsonschema:"answer to sampling/createMessage"`
	Roots       *Answer `json:"roots,omitempty" jsonschema:"answer to roots/list"`
}

// Of returns the answer to requests of a kind, or nil.
func (s Server) Of(kind string) *Answer {
	switch kind {
	case input.KindElicitation:
		return s.Elicitation
	case input.KindSampling:
		return s.Sampling
	case input.KindRoots:
		return s.Roots
	}
	return nil
}

// Answer is the answer to requests of one kind: a result, an error or an action.
type Answer struct {
	Action string          `json:"action,omitempty" enum:"decline cancel" jsonschema:"decline: the user declines, which is an error except for elicitation; cancel: the user cancels an elicitation"`
	Result json.RawMessage `json:"result,omitempty" jsonschema:"result of the request"`
	Error  *Error          `json:"error,omitempty" jsonschema:"JSON-RPC error in place of a result"`
	Schema json.RawMessage `json:"schema,omitempty" jsonschema:"JSON Schema that the params of the request must fit; if they do not, the request is answered with an error and the trial fails"`

	reply  input.Reply
	schema *schema.Schema // nil without Schema
}

// Error is a JSON-RPC error.
type Error struct {
	Code    int    `json:"code" jsonschema:"its code, such as -32603"`
	Message string `json:"message" jsonschema:"its message"`
}

const (
	actionDecline = "decline"
	actionCancel  = "cancel"
)

// SetShort sets an answer that is given as an action only.
func (a *Answer) SetShort(action string) error {
	if action != actionDecline && action != actionCancel {
		return errors.New("must be decline, cancel, or a mapping with a result or an error")
	}
	a.Action = action
	return nil
}

// codeRejected is the error code for a request that the user declines; 2025-11-25 client/sampling,
// "Error Handling".
const codeRejected = -1

// Compile prepares an answer to requests of a kind. It returns an error for its first mistake.
func (a *Answer) Compile(kind string) (err error) {
	given := 0
	for _, is := range []bool{a.Result != nil, a.Error != nil, a.Action != ""} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return errors.New("needs exactly one of result, error and action")
	case a.Error != nil:
		a.reply = input.Reply{Code: a.Error.Code, Message: a.Error.Message}
	case a.Result != nil:
		if err := checkResult(kind, a.Result); err != nil {
			return err
		}
		a.reply = input.Reply{Result: a.Result}
	case kind == input.KindElicitation:
		a.reply = input.Reply{Result: json.RawMessage(`{"action":"` + a.Action + `"}`)}
	case a.Action == actionCancel:
		return fmt.Errorf("cancel is an action of elicitation, not of %s; use decline, or an error", kind)
	default:
		a.reply = input.Reply{Code: codeRejected, Message: "the user rejected the request"}
	}
	if a.Schema == nil {
		return nil
	}
	if a.schema, err = schema.Compile(a.Schema); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}

// checkResult returns an error unless a result has the members that MCP requires of the kind.
func checkResult(kind string, result []byte) error {
	value, _ := jsontext.Parse(result)
	fields, ok := value.(map[string]any)
	if !ok {
		return errors.New("result must be a mapping")
	}
	required := map[string][]string{
		input.KindElicitation: {"action"}, input.KindSampling: {"role", "content", "model"}, input.KindRoots: {"roots"},
	}[kind]
	for _, key := range required {
		if fields[key] == nil {
			return fmt.Errorf("the result of %s needs the key %s", kind, key)
		}
	}
	if action, is := fields["action"].(string); kind == input.KindElicitation && !(is && slices.Contains([]string{"accept", actionDecline, actionCancel}, action)) {
		return errors.New("result.action must be accept, decline or cancel")
	}
	if _, is := fields["roots"].([]any); kind == input.KindRoots && !is {
		return errors.New("result.roots must be a list")
	}
	return nil
}

// Kinds returns the kinds of requests that have an answer, by server.
func (t Table) Kinds() map[string][]string {
	all := map[string][]string{}
	for name, server := range t {
		for _, kind := range input.Kinds() {
			if server.Of(kind) != nil {
				all[name] = append(all[name], kind)
			}
		}
	}
	return all
}

// maxQuestion is the maximum size of a question in bytes, as of a message to a built-in agent.
const maxQuestion = 16 << 20

// ReadQuestion parses a question. It is not trusted: any program in the agent's container may have
// sent it.
func ReadQuestion(body io.Reader) (q input.Question, err error) {
	raw, err := io.ReadAll(io.LimitReader(body, maxQuestion+1))
	switch {
	case err != nil:
		return q, err
	case len(raw) > maxQuestion:
		return q, fmt.Errorf("it is larger than %d bytes", maxQuestion)
	}
	return q, jsontext.Unmarshal(raw, &q)
}

// maxMisfits is how many mismatches with the schema of a request an error lists.
const maxMisfits = 3

// Reply returns the answer to a question. The table must have been compiled.
func (t Table) Reply(q input.Question) input.Reply {
	a := t[q.Server].Of(q.Kind)
	switch {
	case a == nil:
		return input.Reply{Code: jsonrpc.MethodNotFound, Message: "nobody answers such requests"}
	case a.schema == nil:
		return a.reply
	}
	params, err := jsontext.Parse(q.Params)
	if len(q.Params) == 0 {
		params, err = map[string]any{}, nil
	}
	var wrong []string
	if err == nil {
		wrong, err = a.schema.Misfits(params, maxMisfits)
	}
	if err != nil {
		wrong = []string{err.Error()}
	}
	if len(wrong) == 0 {
		return a.reply
	}
	why := strings.Join(wrong, "; ")
	return input.Reply{
		Code: jsonrpc.InvalidParams, Message: "the params do not fit the schema that is expected: " + why,
		Unmet: fmt.Sprintf("MCP server %q requested %s with params that do not fit answers.%s.%s.schema: %s", q.Server, q.Kind, q.Server, q.Kind, why),
	}
}
