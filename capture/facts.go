package capture

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsonvalue"
)

// likeness is what calls of one tool with equal arguments share.
type likeness struct {
	server, tool string
	arguments    [sha256.Size]byte // the sum of their canonical form
}

// keep takes in a new call or read. What is known of a call besides its frames is what
// was known when its first request came.
func (c *collector) keep(f evidence.Frame, k *call) {
	if k.method != methodCallTool {
		c.reads = append(c.reads, k)
		return
	}
	c.calls = append(c.calls, k)
	k.Seq = len(c.calls)
	// Arguments beyond a bound are compared as they are written, and not checked.
	var value any
	form := string(k.Arguments)
	if len(k.Arguments) <= maxArguments {
		value, _ = jsonvalue.Parse(k.Arguments) // they are part of JSON
		form = jsonvalue.Form(value)
	}
	like := likeness{k.Server, k.Tool, sha256.Sum256([]byte(form))}
	if k.SameAs = c.first[like]; k.SameAs == 0 {
		c.first[like] = k.Seq
	}
	c.lookUp(f, k, value)
}

// lookUp asks the catalog of its server about k. A name that was redacted names no
// tool.
func (c *collector) lookUp(f evidence.Frame, k *call, arguments any) {
	listed := c.tools[f.Server]
	if listed == nil || f.RedactedEnvelope {
		return
	}
	tool, sure := listed.find(c.talkOf(f), k.Tool, c.blind)
	if sure {
		k.Known = new(tool != nil)
	}
	if tool == nil {
		return
	}
	k.ReadOnly = tool.readOnly
	switch {
	case f.Redacted > 0 || tool.redacted:
		k.unchecked("a secret was taken out of the arguments or the schema")
	case len(k.Arguments) > maxArguments:
		k.unchecked("the arguments are too large")
	default:
		k.found(listed.schemas.check(tool.tool.InputSchema, arguments))
	}
}

func (k *call) found(f finding) {
	if f.unknown != "" {
		k.unchecked(f.unknown)
		return
	}
	k.Valid, k.Invalid = new(f.valid), f.invalid
}

func (k *call) unchecked(why string) { k.Notes = append(k.Notes, NoteUnchecked+": "+why) }

// arguments are those of a request; leaving them out means none.
func arguments(params map[string]json.RawMessage) json.RawMessage {
	if given, ok := params["arguments"]; ok {
		return given
	}
	return json.RawMessage("{}")
}
