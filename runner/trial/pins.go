package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/runner/plan"
)

// listTimeout is how long one list of a pinned server may take.
const listTimeout = 30 * time.Second

// unpinned is what of a server is not as it is pinned. The zero value is nothing.
type unpinned struct {
	differences []catalog.Difference
	untold      string // why not all could be compared
}

func (u unpinned) none() bool { return len(u.differences) == 0 && u.untold == "" }

// maxDifferences is how many are told.
const maxDifferences = 8

func (u unpinned) String() string {
	all := text.Some(u.differences, maxDifferences, catalog.Difference.String)
	if u.untold != "" {
		all = append(all, "not all could be compared: "+u.untold)
	}
	return strings.Join(all, ", ")
}

// listTools compares what a pinned server offers, in a session of the runner's own.
func (s *servers) listTools(ctx context.Context, h *host) unpinned {
	clean := cleaner{s.o.Secrets}
	q, err := client.Open(ctx, h.server(s.output(h.plan.Name)).Server)
	if err != nil {
		return unpinned{untold: clean.error(err)}
	}
	defer q.Close()
	o := clean.offer(q.Offer())
	var untold []string
	for _, kind := range catalog.Kinds() {
		limited, cancel := context.WithTimeoutCause(ctx, listTimeout, fmt.Errorf("%v have passed", listTimeout))
		l := clean.list(q.List(limited, kind))
		cancel()
		if l.Partial != "" {
			untold = append(untold, fmt.Sprintf("%s: %s", kind, l.Partial))
		}
		o.Lists = append(o.Lists, l)
	}
	return unpinned{h.plan.Pin.Differences(o), strings.Join(untold, "; ")}
}

// comparePins tells which servers are not as they are pinned. It fails where one has to be.
func (s *servers) comparePins() error {
	var errs []error
	for _, h := range s.hosts {
		errs = append(errs, s.tellUnpinned(h.plan, "the runner's probe", h.unpinned))
	}
	return errors.Join(errs...)
}

// checkReported compares what the agent was told of tools: a server may tell it something
// else than the probe.
func (r *recording) checkReported() error {
	if !slices.ContainsFunc(r.plan.Servers, func(s plan.Server) bool { return s.Pin != nil }) {
		return nil
	}
	reported, err := capture.Calls(evidence.Dir(r.rec.Dir()).Frames())
	if err != nil {
		return err
	}
	var errs []error
	for _, listed := range reported.Catalogs() {
		at := slices.IndexFunc(r.plan.Servers, func(s plan.Server) bool { return s.Name == listed.Server })
		if at < 0 || r.plan.Servers[at].Pin == nil {
			continue
		}
		s := r.plan.Servers[at]
		errs = append(errs, r.tellUnpinned(s, "the agent", unpinned{differences: reportedOtherwise(*s.Pin, listed)}))
	}
	return errors.Join(errs...)
}

// reportedOtherwise is what of a catalog, at any time of it, is not as it is pinned.
func reportedOtherwise(pin catalog.Pin, listed evidence.Catalog) []catalog.Difference {
	digests := map[string]string{}
	for _, tool := range listed.Tools {
		if tool.Removed == 0 {
			digests[tool.Name] = tool.Digest
		}
	}
	all := pin.Tools(digests, listed.Complete)
	for _, change := range listed.Changes {
		d := catalog.Difference{Kind: catalog.Tools, Key: change.Tool, What: catalog.Changed}
		if change.RugPull() && !slices.ContainsFunc(all, func(have catalog.Difference) bool { return have.Key == d.Key }) {
			all = append(all, d)
		}
	}
	return all
}

// tellUnpinned records that a server is not as it is pinned.
func (r *recording) tellUnpinned(s plan.Server, whom string, u unpinned) error {
	if u.none() {
		return nil
	}
	message := fmt.Sprintf("not as it is pinned, by what it told %s: %v", whom, u)
	r.rec.Event(evidence.Event{
		Kind: "pin", Where: s.Name, Message: message,
		Data: map[string]any{"differences": u.differences[:min(len(u.differences), maxPinEvent)], "more": max(0, len(u.differences)-maxPinEvent)},
	})
	if !s.Strict {
		return nil
	}
	return because(evidence.ReasonPin, fmt.Errorf("server %q is %s", s.Name, message))
}

// maxPinEvent is how many differences one event holds.
const maxPinEvent = 100

// cleaner takes secrets out of what a server says of itself, before any of it is hashed,
// kept or told: digests tell nothing of them then, and are the same as those of evidence.
type cleaner struct{ secrets *redact.Set }

// offer is o without secrets; its lists are for [cleaner.list].
func (c cleaner) offer(o catalog.Catalog) catalog.Catalog {
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
