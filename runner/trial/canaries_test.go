package trial

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/runner/plan"
)

const testCanary = "waza-canary-of-this-test"

// lookingOut is an observer of a trial with a canary that server crm has, and that may go
// to web and out to a host, and with more, and what it has recorded.
func lookingOut(t *testing.T, more ...evidence.Canary) (observer, func() []string) {
	t.Helper()
	dir := evidence.Dir(filepath.Join(t.TempDir(), "trial"))
	rec, err := evidence.Create(string(dir), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := scannerFor(&plan.Trial{Servers: []plan.Server{{Name: "mail"}}, Canaries: append(more, evidence.Canary{
		Name: "token", Value: testCanary, Planted: []evidence.Plant{{Server: "crm", Env: "TOKEN"}, {File: "a"}}, MayReach: []string{"web", "api.example.com"},
	})}, rec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return observer{Recorder: rec, canaries: l}, func() (said []string) {
		t.Helper()
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		events, err := dir.Events()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Kind == evidence.EventCanary {
				said = append(said, fmt.Sprint(e.Where, " ", e.Data["how"], " ", e.Data["encoding"], " ", e.Data["tool"], " ", e.Data["frame"], " ", e.Data["name"]))
			}
		}
		return said
	}
}

// TestLookout checks that a canary is found on each way out, and only there.
func TestLookout(t *testing.T) {
	o, recorded := lookingOut(t)
	frame := func(server string, dir evidence.Direction, raw string) evidence.Frame {
		return evidence.Frame{Server: server, Dir: dir, Raw: []byte(raw)}
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send","arguments":{"a":"` + testCanary + `"}}}`
	hidden := frame("mail", evidence.ToServer, call)
	hidden.Side = evidence.SideAgent
	for _, f := range []evidence.Frame{
		frame("crm", evidence.ToServer, call), frame("web", evidence.ToServer, call), frame("crm", evidence.ToClient, call),
		frame("mail", evidence.ToClient, call), hidden, // none of these
		frame("mail", evidence.ToServer, call),
		frame("mail", evidence.ToServer, `{"jsonrpc":"2.0","id":2,"result":{"roots":["`+base64.StdEncoding.EncodeToString([]byte("x"+testCanary))+`"]}}`),
	} {
		o.Frame(f)
	}
	for _, e := range []evidence.Event{
		{Kind: "dns", Where: "crm", Data: map[string]any{"name": "mail"}},
		{Kind: "dns", Where: "crm", Data: map[string]any{"name": hex.EncodeToString([]byte(testCanary)) + ".evil.example"}},
		{Kind: "egress", Where: "agent", Data: map[string]any{"name": testCanary + ".example.com"}}, // told by Named
		{Kind: "health", Where: "agent", Data: map[string]any{"name": testCanary}},
	} {
		o.Event(e)
	}
	o.Named("agent", testCanary+".example.com")
	for _, host := range []string{"api.example.com", "other.example.com"} {
		out := o.Tap("crm", host)
		for _, part := range []string{"GET /?q=" + testCanary[:9], testCanary[9:] + " HTTP/1.1\r\n"} {
			if _, err := io.WriteString(out, part); err != nil {
				t.Fatal(err)
			}
		}
	}
	o.canaries.request("nobody", httptest.NewRequest("GET", "/mcp?q="+testCanary, nil))
	o.canaries.request("mail", httptest.NewRequest("GET", "/mcp?q="+testCanary, nil))
	if diff := cmp.Diff([]string{
		"mail argument exact send 6 <nil>", "mail argument base64 <nil> 7 <nil>",
		"crm dns hex <nil> <nil> " + hex.EncodeToString([]byte(testCanary)) + ".evil.example",
		"agent egress exact <nil> <nil> " + testCanary + ".example.com",
		"crm egress exact <nil> <nil> other.example.com",
		"mail argument exact <nil> <nil> <nil>",
	}, recorded()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A canary that goes without end, in two ways and from many places, is told so often; and
// one that goes behind it is told.
func TestSightingsAreBounded(t *testing.T) {
	const other = "waza-canary-that-matters"
	o, recorded := lookingOut(t, evidence.Canary{Name: "other", Value: other})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 2 * maxSeen {
				o.Event(evidence.Event{Kind: "dns", Where: "agent", Data: map[string]any{"name": testCanary}})
				o.Named("agent", testCanary)
			}
		})
	}
	all.Wait()
	o.Event(evidence.Event{Kind: "dns", Where: "crm", Data: map[string]any{"name": other}})
	o.canaries.request("mail", httptest.NewRequest("GET", "/mcp?q="+testCanary, nil))
	said := recorded()
	behind := []string{"crm dns exact <nil> <nil> " + other, "mail argument exact <nil> <nil> <nil>"}
	if len(said) != 2*maxSeen+len(behind) || !slices.Equal(said[2*maxSeen:], behind) {
		t.Errorf("%d events, the last %q", len(said), said[len(said)-1])
	}
}

// A trial without canaries is not looked at.
func TestNoLookout(t *testing.T) {
	rec, err := evidence.Create(filepath.Join(t.TempDir(), "trial"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := scannerFor(&plan.Trial{}, rec, nil)
	if err != nil || l != nil {
		t.Fatalf("%v, %v", l, err)
	}
	o := observer{Recorder: rec, canaries: l}
	o.Frame(evidence.Frame{Dir: evidence.ToServer, Raw: []byte("{}")})
	o.Event(evidence.Event{Kind: "dns", Data: map[string]any{"name": "x"}})
	if _, err := io.WriteString(o.Tap("agent", "h"), "x"); err != nil {
		t.Error(err)
	}
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
}

// Of a secret that lies across the end of a name nothing is recorded.
func TestCutNames(t *testing.T) {
	o, recorded := lookingOut(t)
	o.canaries.secrets = &secret.Set{}
	o.canaries.secrets.Add("hunter2-and-more")
	long := func(most int) string {
		return testCanary + strings.Repeat("x", most-len(testCanary)-7) + "hunter2-and-more"
	}
	o.Named("agent", long(maxHostName))
	o.Frame(evidence.Frame{Server: "mail", Dir: evidence.ToServer, Raw: []byte(`{"method":"tools/call","params":{"name":"` + long(maxToolName) + `"}}`)})
	said := recorded()
	if len(said) != 2 {
		t.Fatalf("%q", said)
	}
	for _, name := range said {
		if !strings.Contains(name, "x*******…") {
			t.Error(name)
		}
	}
}
