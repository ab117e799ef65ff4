package capture

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/jsonvalue"
)

// version is a tool as one entry of a list has it.
type version struct {
	tool     Tool // of which the entry tells the first fields
	sum      [sha256.Size]byte
	readOnly *bool
	redacted bool // something of the message was taken out
}

func (v *version) name() string { return v.tool.Name }

// page is a part of a list.
type page struct {
	tools []json.RawMessage
	next  string // cursor of the one behind it
	last  bool   // there is none
	ok    bool
}

// page reads a tools/list result, and notes what of it cannot be read.
func (c *collector) page(f evidence.Frame, result json.RawMessage) page {
	var p page
	fields, ok := members(result)
	if !ok || jsontext.Unmarshal(fields["tools"], &p.tools) != nil {
		c.note(f, NoteMalformed)
		return page{}
	}
	p.ok = true
	p.next = jsontext.Text(fields["nextCursor"])
	switch cursor := string(fields["nextCursor"]); {
	case cursor == "", cursor == "null", cursor == `""`: // clients take all three for the end
		p.last = true
	case p.next == "":
		c.note(f, NoteMalformed)
	}
	return p
}

// version reads an entry of a list; one that is there already is not read again. It
// returns nil for what is no tool.
func (c *collector) version(f evidence.Frame, known *catalog, raw json.RawMessage) *version {
	sum := sha256.Sum256(raw)
	if v := known.bytes[sum]; v != nil {
		return v
	}
	fields, _ := members(raw) // what is no object has no name
	name := jsontext.Text(fields["name"])
	if name == "" {
		c.note(f, NoteMalformed)
		return nil
	}
	digest, _ := jsonvalue.Digest(raw)
	return &version{
		tool: Tool{
			Name: name, Description: jsontext.Text(fields["description"]),
			InputSchema: bytes.Clone(fields["inputSchema"]), Annotations: bytes.Clone(fields["annotations"]),
			Digest: digest,
		},
		sum: sum, readOnly: readOnlyHint(fields["annotations"]), redacted: f.Redacted > 0,
	}
}

// readOnlyHint is nil where there is none, or none that is a boolean.
func readOnlyHint(annotations json.RawMessage) *bool {
	fields, _ := members(annotations) // what is no object has no hints
	switch string(fields["readOnlyHint"]) {
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	return nil
}
