package dialect

import (
	"cmp"
	"slices"
	"strings"
)

// delta is the part of a response in one event of a stream. A response that is not streamed
// is one delta.
type delta struct {
	id     string
	model  string
	pieces []piece
	thinks bool // contains reasoning, which is not part of the text
	stop   string
	usage  *Usage
	err    string
}

// hasOutput reports whether the delta contains model output.
func (d delta) hasOutput() bool {
	return d.thinks || slices.ContainsFunc(d.pieces, func(p piece) bool {
		return p.use || p.text != ""
	})
}

// piece is a text or a tool's use, or the next part of either.
type piece struct {
	slot  slot
	use   bool
	id    string
	name  string
	text  string // of the answer, or of the use's arguments
	whole bool   // replaces earlier parts
	alone bool   // does not join other pieces
}

// slot identifies the pieces of a response that belong together.
type slot struct {
	part  int
	index int
	id    string
}

// assembly assembles an answer.
type assembly struct {
	head   Response
	pieces []*assembled // in order of their beginnings
	places map[slot]*assembled
	left   bool // pieces or values were dropped because there were too many
}

// assembled is a piece with all its later parts.
type assembled struct {
	first piece
	text  strings.Builder
}

func (a *assembly) add(d delta) {
	a.head.ID = cmp.Or(a.head.ID, d.id)
	a.head.Model = cmp.Or(a.head.Model, d.model)
	a.head.Stop = cmp.Or(d.stop, a.head.Stop)
	a.head.Error = cmp.Or(a.head.Error, d.err)
	a.head.Usage = merge(a.head.Usage, d.usage)
	for _, p := range d.pieces {
		a.put(p)
	}
}

func (a *assembly) put(p piece) {
	at := a.places[p.slot]
	if at == nil || p.alone {
		if at = a.begin(p); at == nil {
			return
		}
	}
	at.first.use = at.first.use || p.use
	at.first.id = cmp.Or(at.first.id, p.id)
	at.first.name = cmp.Or(at.first.name, p.name)
	if p.whole {
		at.text.Reset()
	}
	at.text.WriteString(p.text)
}

func (a *assembly) begin(p piece) *assembled {
	if len(a.pieces) == maxPieces {
		a.left = true
		return nil
	}
	at := &assembled{first: p}
	a.pieces = append(a.pieces, at)
	if p.alone {
		return at
	}
	if a.places == nil {
		a.places = map[slot]*assembled{}
	}
	a.places[p.slot] = at
	return at
}

// response returns the response assembled so far.
func (a *assembly) response() Response {
	response := a.head
	var text strings.Builder
	for _, p := range a.pieces {
		if p.first.use {
			response.Uses = append(response.Uses, Use{
				ID: p.first.id, Name: p.first.name, Arguments: arguments(p.text.String()),
			})
			continue
		}
		text.WriteString(p.text.String())
	}
	response.Text = text.String()
	return response
}

// merge returns the larger of each pair of counts, since providers send increasing counts while
// they stream.
func merge(a, b *Usage) *Usage {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return &Usage{
		Input:       max(a.Input, b.Input),
		Output:      max(a.Output, b.Output),
		Cached:      max(a.Cached, b.Cached),
		CacheWrites: max(a.CacheWrites, b.CacheWrites),
		Reasoning:   max(a.Reasoning, b.Reasoning),
	}
}
