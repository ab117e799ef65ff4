package runner

import (
	"encoding/json"

	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/mcp/catalog"
)

// cleaner takes secrets out of what a server says of itself, before any of it is hashed,
// kept or told: digests tell nothing of them then, and are the same as those of evidence.
type cleaner struct{ secrets *redact.Set }

// offer is o without secrets; its lists are for [cleaner.list].
func (c cleaner) offer(o catalog.Offer) catalog.Offer {
	for _, text := range []*string{&o.Server.Name, &o.Server.Version, &o.Server.Protocol, &o.Instructions} {
		*text = c.text(*text)
	}
	o.Capabilities = c.json(o.Capabilities)
	return o
}

// list is l without secrets. The entries are l's own.
func (c cleaner) list(l catalog.List) catalog.List {
	for i, e := range l.Entries {
		l.Entries[i] = catalog.NewEntry(l.Kind, c.json(e.Raw))
	}
	l.Partial = c.text(l.Partial)
	return l
}

// json is a part of a message without secrets: as deep in a document as it is in its
// message, or members of it such as "method" would be taken for the message's own.
func (c cleaner) json(part json.RawMessage) json.RawMessage {
	const head, tail = `{"":{"":`, `}}`
	if part == nil {
		return nil
	}
	clean, _ := c.secrets.JSON([]byte(head + string(part) + tail))
	return clean[len(head) : len(clean)-len(tail)]
}

// error is what err says, without secrets.
func (c cleaner) error(err error) string { return c.text(err.Error()) }

// text is a text without secrets, which may have been cut off in one.
func (c cleaner) text(text string) string {
	clean, _ := c.secrets.Cut(text)
	return clean
}
