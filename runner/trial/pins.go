package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/runner/plan"
)

// listTimeout bounds reading one list of a pinned server.
const listTimeout = 30 * time.Second

// pinDifference is how a server differs from its pin. The zero value means that it does not.
type pinDifference struct {
	differences []catalog.Difference
	unknown     string // why the comparison is incomplete
}

func (u pinDifference) none() bool { return len(u.differences) == 0 && u.unknown == "" }

// maxDifferences is how many differences a message lists.
const maxDifferences = 8

func (u pinDifference) String() string {
	all := text.Some(u.differences, maxDifferences, catalog.Difference.String)
	if u.unknown != "" {
		all = append(all, "not all could be compared: "+u.unknown)
	}
	return strings.Join(all, ", ")
}

// listTools compares a server's catalog with its pin, in a session of the runner.
func (l *serverStarter) listTools(ctx context.Context, s plan.Server, p *proxy.Proxy) pinDifference {
	clean := cleaner{l.secrets}
	q, err := client.Open(ctx, p.Own(s.Name))
	if err != nil {
		return pinDifference{unknown: clean.error(err)}
	}
	defer q.Close()
	o := clean.ask(ctx, q, listTimeout)
	var unknown []string
	for _, list := range o.Lists {
		if list.Partial != "" {
			unknown = append(unknown, fmt.Sprintf("%s: %s", list.Kind, list.Partial))
		}
	}
	return pinDifference{s.Pin.Differences(o), strings.Join(unknown, "; ")}
}

// comparePins records which servers differ from their pins. It fails if the pin of one is
// strict.
func (s *servers) comparePins() error {
	var errs []error
	for _, up := range s.up {
		errs = append(errs, recordUnpinned(s.starter.log.Recorder, up.plan, "the runner's probe", up.unpinned))
	}
	return errors.Join(errs...)
}

// compareListed compares the tools that servers listed to the agent with their pins, since a server
// may list other tools to the agent than to the probe.
func compareListed(t *plan.Trial, rec *evidence.Recorder, calls func() (capture.Result, error)) error {
	if !slices.ContainsFunc(t.Servers, func(s plan.Server) bool { return s.Pin != nil }) {
		return nil
	}
	captured, err := calls()
	if err != nil {
		return err
	}
	var errs []error
	for _, listed := range captured.Catalogs {
		at := slices.IndexFunc(t.Servers, func(s plan.Server) bool { return s.Name == listed.Server })
		if at < 0 || t.Servers[at].Pin == nil {
			continue
		}
		s := t.Servers[at]
		errs = append(errs, recordUnpinned(rec, s, "the agent", pinDifference{differences: listedDifferences(*s.Pin, listed)}))
	}
	return errors.Join(errs...)
}

// listedDifferences returns how a catalog differed from a pin at any time.
func listedDifferences(pin catalog.Pin, listed evidence.Catalog) []catalog.Difference {
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

// recordUnpinned records how a server differs from its pin. It fails if the pin is strict.
func recordUnpinned(rec *evidence.Recorder, s plan.Server, whom string, u pinDifference) error {
	if u.none() {
		return nil
	}
	message := fmt.Sprintf("differs from its pin, by what it listed for %s: %v", whom, u)
	rec.Event(evidence.Event{
		Kind: "pin", Where: s.Name, Message: message,
		Data: map[string]any{"differences": u.differences[:min(len(u.differences), maxPinEvent)], "more": max(0, len(u.differences)-maxPinEvent)},
	})
	if !s.Strict {
		return nil
	}
	return withReason(evidence.ReasonPin, fmt.Errorf("server %q is %s", s.Name, message))
}

// maxPinEvent is how many differences one event holds.
const maxPinEvent = 100

// cleaner removes secrets from a server's catalog before it is hashed, written or shown. So hashes
// reveal nothing about secrets, and equal those of the evidence.
type cleaner struct{ secrets *secret.Set }

// ask reads a server's catalog and removes secrets. Each list may take as long as patience.
func (c cleaner) ask(ctx context.Context, q *client.Session, patience time.Duration) catalog.Catalog {
	o := q.Catalog()
	for _, text := range []*string{&o.Server.Name, &o.Server.Version, &o.Server.Protocol, &o.Instructions} {
		*text = c.text(*text)
	}
	o.Capabilities = c.json(o.Capabilities)
	for _, kind := range catalog.Kinds() {
		o.Lists = append(o.Lists, c.list(ctx, q, kind, patience))
	}
	return o
}

// list reads one list of a server and removes secrets.
func (c cleaner) list(ctx context.Context, q *client.Session, kind catalog.Kind, patience time.Duration) catalog.List {
	l := q.List(ctx, kind, patience)
	for i, e := range l.Entries {
		l.Entries[i] = catalog.NewEntry(l.Kind, c.json(e.Raw))
	}
	l.Partial = c.text(l.Partial)
	return l
}

// withPatience returns a context with a timeout of d, whose cause states d.
func withPatience(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%v have passed", d))
}

// json removes secrets from a part of a message. It nests the part as deep as in its message,
// because top-level members such as "method" are treated differently.
func (c cleaner) json(part json.RawMessage) json.RawMessage {
	const head, tail = `{"":{"":`, `}}`
	if part == nil {
		return nil
	}
	clean, _ := c.secrets.JSON([]byte(head + string(part) + tail))
	return clean[len(head) : len(clean)-len(tail)]
}

// error returns the text of err without secrets.
func (c cleaner) error(err error) string { return c.text(err.Error()) }

// text removes secrets, also one that is truncated at the end.
func (c cleaner) text(text string) string {
	clean, _ := c.secrets.Cut([]byte(text), false)
	return string(clean)
}
