package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// A server of the run's that died and whose end cannot be waited for is an error to
// the next trial, once.
func TestSharedServerThatDoesNotClose(t *testing.T) {
	shared := NewSharedServers(nil)
	server := plan.Server{Name: "s", Shared: true}
	shared.slots[configKey(server)] = &slot{name: "shared-s", current: &instance{
		name: "s", sandbox: stuck{}, host: &runningServer{plan: server, sandbox: stuck{}, services: &services{}},
		closing: make(chan struct{}), died: "its container ended",
	}}
	if _, err := shared.join(t.Context(), &serverStarter{}, server); err == nil {
		t.Error("no error")
	}
	if err := shared.Close(t.Context()); err != nil {
		t.Errorf("it was closed twice: %v", err)
	}
}

// stuck is a sandbox that cannot be closed.
type stuck struct{ sandbox.Sandbox }

func (stuck) Close(context.Context) error { return errors.New("stuck") }

// sharingTrial is a trial of a run with a canary, and what it has recorded.
func sharingTrial(t *testing.T) (*serverStarter, func() []string) {
	t.Helper()
	dir := evidence.Dir(filepath.Join(t.TempDir(), "trial"))
	rec, err := evidence.Create(string(dir), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan := &plan.Trial{Canaries: []evidence.Canary{{Name: "token", Value: testCanary}}}
	log, err := newObserver(plan, rec, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &serverStarter{log: log, plan: plan}, func() (said []string) {
		t.Helper()
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		events, err := dir.Events()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			said = append(said, fmt.Sprintf("%s %v %s", e.Kind, e.Data["how"], e.Message))
		}
		return said
	}
}

// sharedBy is an instance that a trial has opened.
func sharedBy(user *serverStarter) *instance {
	i := &instance{name: "crm", number: 1, users: map[*serverStarter]struct{}{user: {}}}
	i.scanAs(user)
	return i
}

// One connection lives through two trials and the time between them: each trial is told
// what leaves by it, and the second what left in between.
func TestSharedConnectionIsWatched(t *testing.T) {
	first, firstSaid := sharingTrial(t)
	second, secondSaid := sharingTrial(t)
	i := sharedBy(first)
	out := i.Tap("crm", "api.example.com")
	send := func(text string) {
		if _, err := io.WriteString(out, text); err != nil {
			t.Fatal(err)
		}
	}
	send(testCanary + testCanary[:9])
	i.leave(first)
	send(testCanary[9:])
	i.Event(evidence.Event{Kind: "egress", Where: "crm", Message: "elsewhere"})
	if !i.admit(second) {
		t.Fatal("it is dead")
	}
	send(testCanary)
	i.leave(second)
	const left = `canary egress canary "token" left crm for api.example.com (exact)`
	if diff := cmp.Diff([]string{left}, firstSaid()); diff != "" {
		t.Errorf("the first (-want +got):\n%s", diff)
	}
	const between = " (while no trial was at work)"
	if diff := cmp.Diff([]string{left + between, "egress <nil> elsewhere" + between, left}, secondSaid()); diff != "" {
		t.Errorf("the second (-want +got):\n%s", diff)
	}
}

// A connection that was opened while no trial was at work is watched, and a flood in that
// time hides nothing.
func TestSharedIdleTime(t *testing.T) {
	first, firstSaid := sharingTrial(t)
	second, secondSaid := sharingTrial(t)
	i := sharedBy(first)
	i.leave(first)
	out := i.Tap("crm", "api.example.com")
	for range 2 * maxKept {
		i.Event(evidence.Event{Kind: "dns", Where: "crm", Data: map[string]any{"name": "decoy.example"}})
		i.Named("crm", "decoy.example")
	}
	i.Event(evidence.Event{Kind: "dns", Where: "crm", Data: map[string]any{"name": testCanary + ".example"}})
	i.Named("crm", testCanary+".example")
	if !i.admit(second) {
		t.Fatal("it is dead")
	}
	if _, err := io.WriteString(out, testCanary); err != nil {
		t.Fatal(err)
	}
	said := secondSaid()
	said = slices.DeleteFunc(said, func(s string) bool { return strings.HasPrefix(s, "dns <nil>  (while") })
	if diff := cmp.Diff([]string{
		`canary dns canary "token" is in a name that crm asked for (exact) (while no trial was at work)`,
		`canary egress canary "token" left crm for ` + testCanary + `.example (exact) (while no trial was at work)`,
		fmt.Sprintf("dns <nil> %d more of this kind are not on record, from while no trial was at work", maxKept+1),
		`canary egress canary "token" left crm for api.example.com (exact)`,
	}, said); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if said := firstSaid(); len(said) != 0 {
		t.Errorf("the first: %q", said)
	}
}

// A trial has on record what its shared server has under way as it ends, since the run may
// be over before that is.
func TestSharedConnectionsUnderWay(t *testing.T) {
	far := listen(t)
	at := far.Addr().(*net.TCPAddr)
	allowed, problems := mcpconfig.ReadEgress([]mcpconfig.Egress{{Host: fmt.Sprintf("api.example:%d", at.Port), Address: at.IP.String()}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	user, said := sharingTrial(t)
	i := sharedBy(user)
	outlet := egress.New(egress.Options{Container: "crm", Allowed: allowed, Record: i.Event, Named: i.Named, Tap: i.Tap})
	i.host = &runningServer{outlet: outlet}
	inside := listen(t)
	outlet.Serve(inside, egress.Place{})
	conn, err := net.Dial("tcp", inside.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "CONNECT api.example:%d HTTP/1.1\r\nHost: api.example:%[1]d\r\n\r\n", at.Port); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len("HTTP/1.1 200"))); err != nil {
		t.Fatal(err)
	}
	i.leave(user)
	outlet.Close()
	_ = conn.Close()
	if got, want := said(), fmt.Sprintf("egress <nil> api.example port %d: it is still open; 0 bytes out, 0 in", at.Port); !slices.Equal(got, []string{want}) {
		t.Errorf("%q, not %q", got, want)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}
