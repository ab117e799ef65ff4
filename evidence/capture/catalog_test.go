package capture_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

// dialogue makes the frames of one connection, with its own ids.
type dialogue struct {
	conn   string
	ids    int
	frames *[]evidence.Frame
}

func (d *dialogue) add(dir evidence.Direction, format string, args ...any) {
	f := frame(dir, fmt.Sprintf(format, args...))
	f.Conn = d.conn
	*d.frames = append(*d.frames, f)
}

// opens begins a session, as up to 2025-11-25.
func (d *dialogue) opens() {
	d.ids++
	d.add(evidence.ToServer, `{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, d.ids)
	d.add(evidence.ToClient, `{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`, d.ids)
}

const stateless = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`

// discovers asks who the server is, as from 2026-07-28.
func (d *dialogue) discovers() {
	d.ids++
	d.add(evidence.ToServer, `{"jsonrpc":"2.0","id":%d,"method":"server/discover","params":{%s}}`, d.ids, stateless)
	d.add(evidence.ToClient, `{"jsonrpc":"2.0","id":%d,"result":{"resultType":"complete","supportedVersions":["2026-07-28"]}}`, d.ids)
}

// lists asks for the page behind a cursor; the answer has these tools, and the next
// cursor behind a >.
func (d *dialogue) lists(cursor string, tools ...string) {
	d.ids++
	var entries []string
	next := ""
	for _, tool := range tools {
		if after, ok := strings.CutPrefix(tool, ">"); ok {
			next = fmt.Sprintf(`,"nextCursor":%q`, after)
			continue
		}
		if !strings.HasPrefix(tool, "{") {
			tool = fmt.Sprintf(`{"name":%q,"inputSchema":{}}`, tool)
		}
		entries = append(entries, tool)
	}
	params := stateless
	if cursor != "" {
		params += fmt.Sprintf(`,"cursor":%q`, cursor)
	}
	d.add(evidence.ToServer, `{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{%s}}`, d.ids, params)
	d.add(evidence.ToClient, `{"jsonrpc":"2.0","id":%d,"result":{"tools":[%s]%s}}`, d.ids, strings.Join(entries, ","), next)
}

func (d *dialogue) calls(tool string) {
	d.ids++
	d.add(evidence.ToServer, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,"name":%q,"arguments":{}}}`, d.ids, stateless, tool)
	d.add(evidence.ToClient, `{"jsonrpc":"2.0","id":%d,"result":{"resultType":"complete","content":[]}}`, d.ids)
}

func (d *dialogue) hears(notification string) {
	d.add(evidence.ToClient, `{"jsonrpc":"2.0","method":%q}`, notification)
}

const changed = "notifications/tools/list_changed"

// known returns for each call whether its tool was listed: y, n, or ? if that is unknown.
func known(result capture.Result) string {
	var b strings.Builder
	for _, call := range result.Calls {
		switch {
		case call.Known == nil:
			b.WriteByte('?')
		case *call.Known:
			b.WriteByte('y')
		default:
			b.WriteByte('n')
		}
	}
	return b.String()
}

// Both eras: where conversations have a session, and where none has.
func TestKnownTools(t *testing.T) {
	for _, test := range []struct {
		name                string
		talk                func(a, b *dialogue)
		sessions, stateless string // as known has it
	}{
		{"nothing listed", func(a, _ *dialogue) { a.calls("x") }, "?", "?"},
		{"listed", func(a, _ *dialogue) { a.lists("", "x"); a.calls("x"); a.calls("y") }, "yn", "yn"},
		{"a list without tools", func(a, _ *dialogue) { a.lists(""); a.calls("x") }, "n", "n"},
		{"listed too late", func(a, _ *dialogue) { a.calls("x"); a.lists("", "x"); a.calls("x") }, "?y", "?y"},
		{"the name in another case", func(a, _ *dialogue) { a.lists("", "x"); a.calls("X") }, "n", "n"},
		{"a page is missing", func(a, _ *dialogue) { a.lists("", "x", ">2"); a.calls("x"); a.calls("y") }, "y?", "y?"},
		{"all pages", func(a, _ *dialogue) {
			a.lists("", "x", ">2")
			a.lists("2", "y")
			a.calls("x")
			a.calls("y")
			a.calls("z")
		}, "yyn", "yyn"},
		{"a page of another list", func(a, _ *dialogue) { a.lists("", "x", ">2"); a.lists("3", "y"); a.calls("y"); a.calls("z") }, "y?", "y?"},
		{"a page twice", func(a, _ *dialogue) {
			a.lists("", "x", ">2")
			a.lists("2", "y", ">3")
			a.lists("2", "y", ">3")
			a.lists("3")
			a.calls("z")
		}, "n", "n"},
		{"a later page alone", func(a, _ *dialogue) { a.lists("2", "y"); a.calls("y"); a.calls("z") }, "y?", "y?"},
		{"listed anew without it", func(a, _ *dialogue) { a.lists("", "x"); a.lists("", "y"); a.calls("x"); a.calls("y") }, "ny", "ny"},
		{"listed anew in part", func(a, _ *dialogue) {
			a.lists("", "x")
			a.lists("", "y", ">2")
			a.calls("x")
			a.calls("y")
			a.calls("z")
		}, "yy?", "yy?"},
		{"changed, and not listed again", func(a, _ *dialogue) { a.lists("", "x"); a.hears(changed); a.calls("x"); a.calls("y") }, "y?", "y?"},
		{"changed, and listed again", func(a, _ *dialogue) {
			a.lists("", "x")
			a.hears(changed)
			a.lists("", "y")
			a.calls("x")
			a.calls("y")
		}, "ny", "ny"},
		{"another notification", func(a, _ *dialogue) { a.lists("", "x"); a.hears("notifications/progress"); a.calls("y") }, "n", "n"},
		{"told to another", func(a, b *dialogue) { b.lists("", "x"); a.calls("x"); a.calls("y") }, "yn", "yn"},
		{"told otherwise to another", func(a, b *dialogue) {
			a.lists("", "x", "z")
			b.lists("", "x")
			a.calls("z")
			b.calls("z")
		}, "yn", "nn"},
		{"told by another since", func(a, b *dialogue) { a.lists("", "x"); b.lists("", "x", "z"); a.calls("z") }, "y", "y"},
		{"pages of two at once", func(a, b *dialogue) {
			a.lists("", "x", ">2")
			b.lists("", "x", ">2")
			a.lists("2", "y")
			a.calls("z")
			b.calls("z")
		}, "n?", "nn"},
		{"something that cannot be read", func(a, _ *dialogue) {
			a.lists("", "x")
			a.add(evidence.ToClient, `{"id":`)
			a.calls("x")
			a.calls("y")
		}, "y?", "y?"},
		{"... and a list since", func(a, _ *dialogue) {
			a.add(evidence.ToClient, `{"id":`)
			a.lists("", "x")
			a.calls("y")
		}, "n", "n"},
		{"something of the client's that cannot be read", func(a, _ *dialogue) {
			a.lists("", "x")
			a.add(evidence.ToServer, `{"id":`)
			a.calls("y")
		}, "n", "n"},
		{"an answer that is no list", func(a, _ *dialogue) {
			a.lists("", "x")
			a.ids++
			a.add(evidence.ToServer, `{"id":%d,"method":"tools/list"}`, a.ids)
			a.add(evidence.ToClient, `{"jsonrpc":"2.0","id":%d,"result":{"tools":{}}}`, a.ids)
			a.calls("y")
		}, "?", "?"},
		{"a list that failed", func(a, _ *dialogue) {
			a.lists("", "x")
			a.ids++
			a.add(evidence.ToServer, `{"id":%d,"method":"tools/list"}`, a.ids)
			a.add(evidence.ToClient, `{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":"later"}}`, a.ids)
			a.calls("y")
		}, "n", "n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, era := range []struct {
				name  string
				begin func(*dialogue)
				want  string
			}{{"sessions", (*dialogue).opens, test.sessions}, {"stateless", (*dialogue).discovers, test.stateless}} {
				var frames []evidence.Frame
				a, b := &dialogue{conn: "a", frames: &frames}, &dialogue{conn: "b", ids: 100, frames: &frames}
				era.begin(a)
				era.begin(b)
				test.talk(a, b)
				if got := known(calls(t, frames...)); got != era.want {
					t.Errorf("%s: known %s; want %s", era.name, got, era.want)
				}
			}
		})
	}
}

// Frames that are missing from the record may have been a list of any server's.
func TestMissingFramesMakeNoToolUnknown(t *testing.T) {
	var frames []evidence.Frame
	a := &dialogue{conn: "a", frames: &frames}
	a.lists("", "x")
	a.calls("y")
	result, err := capture.Calls(func(yield func(evidence.Frame, error) bool) {
		for f := range number(frames) {
			if f.Seq > 2 {
				f.Seq += 5
			}
			if !yield(f, nil) {
				return
			}
		}
	})
	if err != nil || known(result) != "?" {
		t.Errorf("known %s, error %v", known(result), err)
	}
}

// A list that was asked for before the server said that it has changed may be the old
// one.
func TestListThatWasAskedBeforeAChange(t *testing.T) {
	got := calls(t,
		up(`{"id":9,"method":"tools/list"}`),
		down(`{"method":"`+changed+`"}`),
		down(`{"jsonrpc":"2.0","id":9,"result":{"tools":[]}}`),
		up(ask), down(ok))
	if known(got) != "?" {
		t.Errorf("known %s", known(got))
	}
}

// The agent does not know a hidden tool, even if it guesses the name.
func TestHiddenToolsAreNotKnown(t *testing.T) {
	const tools = `{"jsonrpc":"2.0","id":2,"result":{"tools":[%s{"name":"b"}]}}`
	result := calls(t,
		up(`{"id":2,"method":"tools/list"}`),
		seenBy(evidence.SideServer, down(fmt.Sprintf(tools, `{"name":"get","description":"old"},`))),
		seenBy(evidence.SideAgent, down(fmt.Sprintf(tools, ""))),
		seenBy(evidence.SideAgent, up(ask)), synthetic(evidence.SyntheticHidden, seenBy(evidence.SideAgent, down(failed))),
		up(`{"id":2,"method":"tools/list"}`),
		seenBy(evidence.SideServer, down(fmt.Sprintf(tools, `{"name":"get","description":"new"},`))),
		seenBy(evidence.SideAgent, down(fmt.Sprintf(tools, ""))),
	)
	listed := result.Catalogs[0]
	if known(result) != "n" || len(listed.Changes) > 0 {
		t.Errorf("known %s, changes %v", known(result), listed.Changes)
	}
	if hidden := listed.Tools[0]; !hidden.Hidden || hidden.Description != "new" || hidden.First != 2 || hidden.Frame != 7 {
		t.Errorf("%+v", hidden)
	}
}

func TestReadOnly(t *testing.T) {
	for annotations, want := range map[string]string{
		`{"readOnlyHint":true}`:               "true",
		`{"readOnlyHint":false}`:              "false",
		`{"readOnlyHint":"true"}`:             "unknown",
		`{"readonlyhint":true}`:               "unknown",
		`{"destructiveHint":false}`:           "unknown",
		`null`:                                "unknown",
		`[true]`:                              "unknown",
		`{"title":"t","readOnlyHint": true }`: "true",
	} {
		got := calls(t,
			up(`{"id":0,"method":"tools/list"}`),
			down(`{"jsonrpc":"2.0","id":0,"result":{"tools":[{"name":"get","annotations":`+annotations+`}]}}`), up(ask), down(ok))
		if hint := value(got.Calls[0].ReadOnly); hint != want {
			t.Errorf("%s: %s; want %s", annotations, hint, want)
		}
	}
}

// A call is checked against the tool as listed at the time of the call.
func TestCallsGoByTheToolOfTheirTime(t *testing.T) {
	var frames []evidence.Frame
	a := &dialogue{conn: "a", frames: &frames}
	a.lists("", `{"name":"x","annotations":{"readOnlyHint":true},"inputSchema":{}}`)
	a.calls("x")
	a.lists("", `{"name":"x","annotations":{"readOnlyHint":false},"inputSchema":{"required":["n"]}}`)
	a.calls("x")
	got := calls(t, frames...).Calls
	if value(got[0].ReadOnly) != "true" || value(got[0].Valid) != "true" || value(got[1].ReadOnly) != "false" || value(got[1].Valid) != "false" {
		t.Errorf("%+v", got)
	}
}

// A call that was made before any list goes by the first one after it.
func TestCallsBeforeAnyListGoByTheFirst(t *testing.T) {
	var frames []evidence.Frame
	a := &dialogue{conn: "a", frames: &frames}
	a.calls("x")
	a.calls("y")
	a.calls("z")
	a.lists("", `{"name":"x","annotations":{"readOnlyHint":true}}`, `{"name":"y"}`)
	a.calls("z")
	a.lists("", `{"name":"x","annotations":{"readOnlyHint":false}}`, `{"name":"y","annotations":{"readOnlyHint":true}}`, `{"name":"z","annotations":{"readOnlyHint":true}}`)
	var hints []string
	for _, call := range calls(t, frames...).Calls {
		hints = append(hints, value(call.ReadOnly))
	}
	if want := []string{"true", "unknown", "true", "unknown"}; !slices.Equal(hints, want) {
		t.Errorf("%q, want %q", hints, want)
	}
}

func reported(changes []evidence.Change) []string {
	var lines []string
	for _, c := range changes {
		line := fmt.Sprintf("%d %s %s %s→%s", c.Frame, c.Tool, c.What, c.Before, c.After)
		if c.RugPull() {
			line += " rug_pull"
		}
		lines = append(lines, line)
	}
	return lines
}

func TestChanges(t *testing.T) {
	tool := func(more string) string { return `{"name":"x"` + more + `}` }
	plain := tool(`,"description":"d","inputSchema":{"a":1}`)
	for _, test := range []struct {
		name string
		talk func(a, b *dialogue)
		want []string
	}{
		{"none", func(a, _ *dialogue) { a.lists("", plain); a.lists("", plain) }, nil},
		{"written in another way", func(a, _ *dialogue) {
			a.lists("", plain)
			a.lists("", `{ "inputSchema":{"a":1.0}, "description":"\u0064", "name":"x" }`)
		}, nil},
		{"the description", func(a, _ *dialogue) {
			a.lists("", plain)
			a.lists("", tool(`,"description":"e","inputSchema":{"a":1}`))
		}, []string{"4 x description d→e rug_pull"}},
		{"the input schema", func(a, _ *dialogue) {
			a.lists("", plain)
			a.lists("", tool(`,"description":"d","inputSchema":{"a":2}`))
		}, []string{`4 x input_schema {"a":1}→{"a":2} rug_pull`}},
		{"annotations", func(a, _ *dialogue) {
			a.lists("", plain)
			a.lists("", tool(`,"description":"d","inputSchema":{"a":1},"annotations":{}`))
		}, []string{"4 x annotations →{}"}},
		{"from writing to reading", func(a, _ *dialogue) {
			a.lists("", tool(`,"annotations":{"readOnlyHint":false}`))
			a.lists("", tool(`,"annotations":{"readOnlyHint":true}`))
		}, []string{`4 x read_only {"readOnlyHint":false}→{"readOnlyHint":true} rug_pull`}},
		{"from no hint to reading", func(a, _ *dialogue) {
			a.lists("", tool(``))
			a.lists("", tool(`,"annotations":{"title":"t","readOnlyHint":true}`))
		}, []string{`4 x read_only →{"title":"t","readOnlyHint":true} rug_pull`}},
		{"from a hint that is none to reading", func(a, b *dialogue) {
			a.lists("", tool(`,"annotations":{"readOnlyHint":"true"}`))
			b.lists("", tool(`,"annotations":{"readOnlyHint":true}`))
		}, []string{`4 x read_only {"readOnlyHint":"true"}→{"readOnlyHint":true} rug_pull`}},
		{"removed and back as a reader", func(a, _ *dialogue) {
			a.lists("", tool(``))
			a.lists("")
			a.lists("", tool(`,"annotations":{"readOnlyHint":true}`))
		}, []string{"4 x removed →", "6 x added →", `6 x read_only →{"readOnlyHint":true} rug_pull`}},
		{"a second of the name later, a reader", func(a, _ *dialogue) {
			a.lists("", tool(``))
			a.lists("", tool(``), tool(`,"annotations":{"readOnlyHint":true}`))
		}, []string{`4 x read_only →{"readOnlyHint":true} rug_pull`}},
		{"from reading to writing", func(a, _ *dialogue) {
			a.lists("", tool(`,"annotations":{"readOnlyHint":true}`))
			a.lists("", tool(`,"annotations":{"readOnlyHint":false}`))
		}, []string{`4 x annotations {"readOnlyHint":true}→{"readOnlyHint":false}`}},
		{"something else", func(a, _ *dialogue) {
			a.lists("", plain)
			a.lists("", tool(`,"description":"d","inputSchema":{"a":1},"title":"X"`))
		}, []string{"4 x other →"}},
		{"several", func(a, _ *dialogue) {
			a.lists("", plain)
			a.lists("", tool(`,"inputSchema":{"b":1}`))
		}, []string{"4 x description d→ rug_pull", `4 x input_schema {"a":1}→{"b":1} rug_pull`}},
		{"and back", func(a, _ *dialogue) {
			a.lists("", plain)
			a.lists("", tool(`,"description":"e","inputSchema":{"a":1}`))
			a.lists("", plain)
		}, []string{"4 x description d→e rug_pull", "6 x description e→d rug_pull"}},
		{"only for another conversation", func(a, b *dialogue) {
			a.lists("", plain)
			b.lists("", tool(`,"description":"e","inputSchema":{"a":1}`))
		}, []string{"4 x description d→e rug_pull"}},
		{"added and removed", func(a, _ *dialogue) {
			a.lists("", "x")
			a.lists("", "x", "y")
			a.lists("", "y")
		}, []string{"4 y added →", "6 x removed →"}},
		{"removed and back with another description", func(a, _ *dialogue) {
			a.lists("", plain)
			a.lists("")
			a.lists("", tool(`,"description":"e","inputSchema":{"a":1}`))
		}, []string{"4 x removed →", "6 x added →", "6 x description d→e rug_pull"}},
		{"not seen to be removed", func(a, _ *dialogue) { a.lists("", "x", "y"); a.lists("", "x", ">2") }, nil},
		{"pages add nothing", func(a, _ *dialogue) { a.lists("", "x", ">2"); a.lists("2", "y") }, nil},
		{"in a list that does not end", func(a, _ *dialogue) {
			a.lists("", plain)
			a.lists("", tool(`,"description":"e","inputSchema":{"a":1}`), ">2")
		}, []string{"4 x description d→e rug_pull"}},
		{"two of a name from the beginning", func(a, _ *dialogue) {
			a.lists("", plain, tool(`,"description":"e"`))
			a.lists("", plain, tool(`,"description":"e"`))
		}, nil},
		{"a second of the name later", func(a, _ *dialogue) {
			a.lists("", plain)
			a.lists("", plain, tool(`,"description":"e","inputSchema":{"a":1}`))
			a.lists("", plain, tool(`,"description":"e","inputSchema":{"a":1}`))
		}, []string{"4 x description d→e rug_pull"}},
		{"a description of some length", func(a, _ *dialogue) {
			long := strings.Repeat("é", 300)
			a.lists("", tool(`,"description":"`+long+`old"`))
			a.lists("", tool(`,"description":"`+long+`new"`))
		}, []string{"4 x description …" + strings.Repeat("é", 50) + "old→…" + strings.Repeat("é", 50) + "new rug_pull"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var frames []evidence.Frame
			a, b := &dialogue{conn: "a", frames: &frames}, &dialogue{conn: "b", ids: 100, frames: &frames}
			test.talk(a, b)
			catalogs := calls(t, frames...).Catalogs
			if len(catalogs) != 1 {
				t.Fatalf("catalogs %+v", catalogs)
			}
			if diff := cmp.Diff(test.want, reported(catalogs[0].Changes)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCatalogHash(t *testing.T) {
	hash := func(pages ...string) string {
		var frames []evidence.Frame
		a := &dialogue{conn: "a", frames: &frames}
		a.lists("", pages...)
		return calls(t, frames...).Catalogs[0].SHA256
	}
	const x, y = `{"name":"x","inputSchema":{"maximum":1}}`, `{"name":"y"}`
	if hash(x, y) != hash(y, `{ "inputSchema": {"maximum":1.0}, "name":"x" }`) {
		t.Error("the order of tools and keys, or how a number is written, changes the hash")
	}
	for _, other := range [][]string{{x}, {y}, {x, `{"name":"z"}`}, {x, `{"name":"y","title":"Y"}`}, {y, `{"name":"x","inputSchema":{"maximum":2}}`}} {
		if hash(x, y) == hash(other...) {
			t.Errorf("%s has the same hash", other)
		}
	}
}
