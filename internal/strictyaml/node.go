package strictyaml

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

type kind int

const (
	broken kind = iota // already reported
	null
	boolean
	integer
	float
	text
	list
	mapping
)

// node is a value in the file. An alias shares its target's node.
type node struct {
	kind kind
	pos  Position
	text string // of a text; of a number or boolean in JSON notation
	// written is a number or boolean as in the file.
	written string
	// odd reports that a text is a number that JSON cannot represent, such as 007.
	odd bool
	// asText reports that a number or boolean was decoded as a string, and is encoded as
	// one.
	asText bool
	items  []*node        // of a list
	pairs  []pair         // of a mapping, in the order of the file
	index  map[string]int // index in pairs by key
	// With aliases written out:
	size   int // nodes including itself; at most maxNodes+1
	height int // levels of lists and mappings below it
}

type pair struct {
	key    string
	keyPos Position
	value  *node
}

func (n *node) add(p pair) {
	n.index[p.key] = len(n.pairs)
	n.pairs = append(n.pairs, p)
}

// lay merges a mapping into n, with all positions set to pos.
func (n *node) lay(below *node, pos Position) {
	for _, p := range below.pairs {
		switch own := n.pair(p.key); {
		case own == nil:
			n.add(pair{p.key, pos, p.value.movedTo(pos)})
		case own.value.kind == null:
			own.value = p.value.movedTo(pos)
		case own.value.kind == mapping && p.value.kind == mapping:
			laid := own.value.clone() // may be shared through aliases
			laid.lay(p.value, pos)
			own.value = laid
		}
	}
}

// movedTo returns a deep copy of n with all positions set to pos.
func (n *node) movedTo(pos Position) *node {
	moved := n.clone()
	moved.pos = pos
	for i, item := range moved.items {
		moved.items[i] = item.movedTo(pos)
	}
	for i, p := range moved.pairs {
		moved.pairs[i] = pair{p.key, pos, p.value.movedTo(pos)}
	}
	return moved
}

// clone returns a shallow copy of n.
func (n *node) clone() *node {
	c := *n
	c.items, c.pairs, c.index = slices.Clone(n.items), slices.Clone(n.pairs), maps.Clone(n.index)
	return &c
}

// drop removes keys from a mapping.
func (n *node) drop(keys map[string]bool) {
	kept := n.pairs
	n.pairs, n.index = nil, map[string]int{}
	for _, p := range kept {
		if !keys[p.key] {
			n.add(p)
		}
	}
}

func (n *node) dropNulls() {
	if n == nil {
		return
	}
	nulls := map[string]bool{}
	for _, p := range n.pairs {
		if p.value.kind == null {
			nulls[p.key] = true
		}
		p.value.dropNulls()
	}
	for _, item := range n.items {
		item.dropNulls()
	}
	if len(nulls) > 0 {
		n.drop(nulls)
	}
}

func (n *node) pair(step any) *pair {
	key, ok := step.(string)
	if !ok {
		return nil
	}
	i, ok := n.index[key]
	if !ok {
		return nil
	}
	return &n.pairs[i]
}

func (n *node) child(step any) *node {
	if p := n.pair(step); p != nil {
		return p.value
	}
	if i, ok := step.(int); ok && i >= 0 && i < len(n.items) {
		return n.items[i]
	}
	return nil
}

// appendJSON writes n as compact JSON. Keys keep their order and numbers their digits. If
// understood is set, values that were decoded as strings are written as strings.
func (n *node) appendJSON(b *bytes.Buffer, understood bool) {
	switch n.kind {
	case boolean, integer, float:
		if n.asText && understood {
			appendString(b, n.written)
			return
		}
		b.WriteString(n.text)
	case text:
		appendString(b, n.text)
	case list:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.appendJSON(b, understood)
		}
		b.WriteByte(']')
	case mapping:
		b.WriteByte('{')
		for i, p := range n.pairs {
			if i > 0 {
				b.WriteByte(',')
			}
			appendString(b, p.key)
			b.WriteByte(':')
			p.value.appendJSON(b, understood)
		}
		b.WriteByte('}')
	default:
		b.WriteString("null")
	}
}

func appendString(b *bytes.Buffer, s string) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can be encoded, and a Buffer never fails
	b.Truncate(b.Len() - 1)
}

// json returns n as compact JSON, as it was understood.
func (n *node) json() json.RawMessage {
	var b bytes.Buffer
	n.appendJSON(&b, true)
	return b.Bytes()
}

// describe describes n, for "must be …, not …".
func (n *node) describe() string {
	switch n.kind {
	case boolean:
		return n.text
	case integer, float:
		return "the number " + n.text
	case text:
		const shown = 40
		if s := []rune(n.text); len(s) > shown {
			return fmt.Sprintf("the string %q…", string(s[:shown]))
		}
		return fmt.Sprintf("the string %q", n.text)
	case list:
		return "a list"
	case mapping:
		return "a mapping"
	default:
		return "empty"
	}
}

// describe is like n.describe, without text from a private document.
func (d *Document) describe(n *node) string {
	if d.private && n.kind == text {
		return "a string"
	}
	return n.describe()
}
