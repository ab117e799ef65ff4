package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
)

// listing is a streamable HTTP server that responds to each method with the given members
// after the id. Unknown methods get an error, and it does not respond to those with an
// empty answer.
type listing func(method, cursor string) (answer string, known bool)

func (l listing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	sent, err := parse(body)
	if err != nil || !sent[0].IsRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	m := sent[0]
	answer := `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"l","version":"1"},"instructions":"read me"}`
	if m.Method != methodInitialize {
		var known bool
		_, cursor, _ := strings.Cut(string(body), `"cursor":"`)
		cursor, _, _ = strings.Cut(cursor, `"`)
		if answer, known = l(m.Method, cursor); !known {
			answer = `"error":{"code":-32601,"message":"what?"}`
		}
	}
	if answer == "" {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID.Raw, answer)
}

// inspecting opens a conversation that is recorded.
func inspecting(t *testing.T, rec proxy.Recorder, s transport.Server) *client.Session {
	t.Helper()
	q, err := client.Inspect(t.Context(), owned(t, rec, s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

func TestSurvey(t *testing.T) {
	rec := newRecorder()
	q := inspecting(t, rec, transport.Server{Name: "s", Upstream: upstreamOf(t, listing(func(method, cursor string) (string, bool) {
		switch {
		case method == "tools/list" && cursor == "":
			return `"result":{"tools":[{"name":"a"}],"nextCursor":"2"}`, true
		case method == "tools/list":
			return `"result":{"tools":[{"name":"b"},7]}`, true
		case method == "resources/list":
			return `"result":{"resources":[{"uri":"x:y","name":"z"}]}`, true
		case method == "prompts/list":
			return `"error":{"code":-32000,"message":"not now"}`, true
		}
		return "", false
	}).ServeHTTP)})
	if o := q.Catalog(); o.Instructions != "read me" || o.Server != (catalog.Server{Name: "l", Version: "1", Protocol: "2025-11-25"}) || string(o.Capabilities) != `{"tools":{}}` {
		t.Errorf("%+v", o)
	}
	var got []string
	for _, k := range catalog.Kinds() {
		l := q.List(t.Context(), k, time.Minute)
		text := fmt.Sprint(k, " partial=", l.Partial, " absent=", l.Absent)
		for _, e := range l.Entries {
			text += " " + e.Key + "=" + string(e.Raw)
		}
		got = append(got, text)
	}
	want := []string{
		`tools partial= absent=false a={"name":"a"} b={"name":"b"} =7`,
		`resources partial= absent=false x:y={"uri":"x:y","name":"z"}`,
		`resource_templates partial= absent=true`,
		`prompts partial=the server answered with an error: -32000 not now absent=false`,
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s\nwant %s", got[i], want[i])
		}
	}
	asked := 0
	for _, f := range rec.all() {
		if strings.Contains(string(f.Raw), `/list"`) {
			asked++
		}
	}
	if asked != 5 {
		t.Errorf("%d of 5 questions are on record", asked)
	}
}

// A server that ignores what it does not declare costs a second, once.
func TestIgnoredLists(t *testing.T) {
	var asked atomic.Int64
	q := inspecting(t, newRecorder(), transport.Server{Name: "s", Upstream: upstreamOf(t, listing(func(string, string) (string, bool) {
		asked.Add(1)
		return "", true
	}).ServeHTTP)})
	for range 2 {
		for _, k := range []catalog.Kind{catalog.Resources, catalog.Templates, catalog.Prompts} {
			if l := q.List(t.Context(), k, time.Hour); !l.Absent || l.Partial != "" {
				t.Errorf("%+v", l)
			}
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d lists are asked for", n)
	}
	if l := q.List(t.Context(), catalog.Tools, time.Millisecond); l.Absent || l.Partial == "" {
		t.Errorf("what it declares: %+v", l)
	}
}

// A server with an endless list, or without one, costs a limited amount, and the list is
// reported as incomplete.
func TestHostileLists(t *testing.T) {
	heavytest.Mark(t)
	many := strings.Repeat(`{"name":"t"},`, 100_000)
	pages := 0
	tests := map[string]struct {
		answer func(cursor string) string
		want   string
	}{
		"too many":    {func(string) string { return `"result":{"tools":[` + many + `{"name":"last"}]}` }, "more than 10000 entries"},
		"a circle":    {func(string) string { return `"result":{"tools":[{"name":"a"}],"nextCursor":"same"}` }, "the server sent the same cursor twice"},
		"without end": {func(string) string { pages++; return fmt.Sprintf(`"result":{"tools":[],"nextCursor":"%d"}`, pages) }, "more than 100 pages"},
		"large": {func(string) string {
			pages++
			return fmt.Sprintf(`"result":{"tools":[{"name":"a","x":"%s"}],"nextCursor":"%d"}`, strings.Repeat("x", 8<<20), pages)
		}, "more than 32 MiB"},
		"nested deep": {func(string) string {
			return `"result":{"tools":[{"name":"a"},{"name":"b","x":` + strings.Repeat("[", 9990) + strings.Repeat("]", 9990) + `}]}`
		}, "an entry is nested more than 100 deep"},
		"no list":       {func(string) string { return `"result":{"tools":{"name":"a"}}` }, "a response has no list"},
		"never answers": {func(string) string { return "" }, "did not answer in time: patience is over"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q := inspecting(t, newRecorder(), transport.Server{Name: "s", Upstream: upstreamOf(t, listing(func(_, cursor string) (string, bool) {
				return tt.answer(cursor), true
			}).ServeHTTP)})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if name == "never answers" {
				cancel(fmt.Errorf("patience is over"))
			}
			l := q.List(ctx, catalog.Tools, time.Minute)
			if deep := slices.ContainsFunc(l.Entries, func(e catalog.Entry) bool { return jsontext.Depth(e.Raw) > 100 }); deep {
				t.Error("an entry is nested too deep")
			}
			if l.Partial != tt.want || len(l.Entries) > 10_000 || l.Bytes > 32<<20+9<<20 {
				t.Errorf("%q, %d entries, %d bytes", l.Partial, len(l.Entries), l.Bytes)
			}
		})
	}
}

// Of a secret that lies across the end of what an event holds nothing is recorded.
func TestClippedSecret(t *testing.T) {
	secrets := &secret.Set{}
	secrets.Add("hunter2-and-more")
	said := strings.Repeat("x", transport.MaxText-5) + "hunter2-and-more" + strings.Repeat("x", transport.MaxText)
	if got, _ := secrets.Cut([]byte(transport.Clip([]byte(said))), false); len(got) > transport.MaxText+len(text.Ellipsis) || bytes.Contains(got, []byte("hunt")) {
		t.Errorf("%d bytes, ending %q", len(got), got[len(got)-20:])
	}
}

// While nothing is asked, what a server asks is refused and recorded, and its end is told.
func TestListen(t *testing.T) {
	rec := newRecorder()
	q, err := client.Inspect(t.Context(), owned(t, rec, transport.Server{Name: "s", Launch: launching(t, "scripted"), Grace: quick().grace}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := q.Listen(ctx); err != nil {
		t.Errorf("a server that lives: %v", err)
	}
	if len(rec.all()) < 3 {
		t.Errorf("%d frames", len(rec.all()))
	}
	q.Close()
	if err := q.Listen(t.Context()); err == nil {
		t.Error("its end is not told")
	}
}
