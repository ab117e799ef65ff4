package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/report/view"
)

func done(n int) func(view.RunProgress) bool {
	return func(p view.RunProgress) bool { return p.Done == n }
}

// Twenty watch a run: each sees everything, and when it has ended nobody watches any more.
func TestTwentyWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runtest.Begin(t, dir, "a", 3)
	s := open(t, dir)
	var clients []*stream
	for range 20 {
		clients = append(clients, s.watch("a"))
	}
	if all := len(s.watches.clients); all != 20 {
		t.Errorf("%d clients", all)
	}
	run.Step(1, evidence.PhaseStart, "")
	run.Step(2, evidence.PhaseStart, "")
	run.Step(1, evidence.PhaseDone, evidence.ClassPass)
	for _, c := range clients {
		p := c.until(done(1))
		if p.State != view.StateRunning || p.Planned != 3 || p.Outcomes[evidence.ClassPass] != 1 || p.LeftMS != nil { // of two that run at once only one is done
			t.Errorf("%+v", p)
		}
	}
	run.Step(2, evidence.PhaseDone, evidence.ClassFail)
	for _, c := range clients {
		if p := c.until(done(2)); len(p.Trials) != 1 || p.Trials[0].Number != 2 || p.Trials[0].Outcome != evidence.ClassFail {
			t.Errorf("what has changed is %+v", p.Trials)
		}
	}
	run.Interrupt()
	for _, c := range clients {
		c.until(func(p view.RunProgress) bool { return p.State == view.StateInterrupted })
		if name, _, err := c.next(); name != "end" || err != nil {
			t.Errorf("%q, %v behind the end of the run", name, err)
		}
		if _, _, err := c.next(); err != io.EOF {
			t.Errorf("%v behind the end", err)
		}
	}
	for until := time.Now().Add(enough); len(s.watches.clients) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("somebody still watches")
		}
	}
}

// More clients than may watch at once are refused, and let in once others have left.
func TestTooManyWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runtest.Begin(t, dir, "a", 1)
	s := open(t, dir)
	for range maxWatchers {
		if _, err := s.watches.join(); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.ask("/runs/a/events", nil); got.StatusCode != http.StatusServiceUnavailable || !strings.Contains(got.body, "Too many pages are watching runs") {
		t.Errorf("%s: %s", got.Status, got.body)
	}
	<-s.watches.clients
	s.watch("a").until(done(0))
}

// Clients that go away, or take nothing in, hold up neither the others nor the end.
func TestClientsThatLeave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runtest.Begin(t, dir, "a", 500)
	s := open(t, dir)
	s.watches.beat = time.Hour
	stuck, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stuck.Close() }()
	if _, err := io.WriteString(stuck, "GET /runs/a/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+s.token+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	leaver, stayer := s.watch("a"), s.watch("a")
	leaver.until(done(0))
	if err := leaver.body.Close(); err != nil {
		t.Error(err)
	}
	for n := 1; n <= 500; n++ {
		run.Step(n, evidence.PhaseDone, evidence.ClassPass)
	}
	stayer.until(done(500))
	if err := s.end(); err != nil { // with two that are still watching
		t.Error(err)
	}
	if _, _, err := stayer.next(); err == nil {
		for err == nil {
			_, _, err = stayer.next()
		}
	}
}

// Clients are told how a run ends, and new ones see its state: killed, resumed, deleted,
// and replaced by another of that name.
func TestEndsOfRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runtest.Begin(t, dir, "a", 3)
	run.Record.Started = run.Record.Started.Add(-time.Hour)
	if err := run.Record.Write(run.Dir); err != nil {
		t.Fatal(err)
	}
	run.Step(1, evidence.PhaseDone, evidence.ClassPass)
	run.Step(2, evidence.PhaseAgent, "")
	s := open(t, dir)
	ends := func(c *stream, state view.State) {
		t.Helper()
		for {
			name, p, err := c.next()
			if err != nil {
				t.Fatal(err)
			}
			if name == "end" {
				if c.said != fmt.Sprintf("%q", state) {
					t.Errorf("it ended as %s, want %q", c.said, state)
				}
				return
			}
			if state == view.StateUnreadable && p.State == state {
				t.Errorf("of a run that is gone: %+v", p)
			}
		}
	}
	stands := func(state view.State, done, begun int) {
		t.Helper()
		listed := byID(api[RunList](s, "runs").Runs)["a"]
		if p := api[view.RunProgress](s, "runs/a/progress"); p.State != state || p.Done != done || len(p.Trials) != begun || listed.State != state || listed.Done != done {
			t.Errorf("%+v, listed as %+v, want %s and %d done", p, listed, state, done)
		}
		if p := api[view.RunProgress](s, "runs/a/progress"); (p.ElapsedMS >= time.Hour.Milliseconds()) != (begun > 0) {
			t.Errorf("a run that is %s took %d ms", state, p.ElapsedMS)
		}
		page := s.page("/runs/a/overview")
		if strings.Contains(page, "data-live=") != (state == view.StateRunning) {
			t.Errorf("the page of a run that is %s has events: %t", state, state != view.StateRunning)
		}
	}
	watching := s.watch("a")
	watching.until(done(1))
	stands(view.StateRunning, 1, 2)
	run.Kill()
	ends(watching, view.StateInterrupted)
	stands(view.StateInterrupted, 1, 2)

	run.Resume()
	watching = s.watch("a")
	run.Step(2, evidence.PhaseStart, "")
	run.Step(2, evidence.PhaseDone, evidence.ClassFail)
	watching.until(done(2))
	stands(view.StateRunning, 2, 2)
	if err := os.Rename(run.Dir, filepath.Join(t.TempDir(), "gone")); err != nil { // whole, at once
		t.Fatal(err)
	}
	ends(watching, view.StateUnreadable)

	if err := errors.Join(os.Mkdir(run.Dir, 0o755), run.Record.Write(run.Dir)); err != nil {
		t.Fatal(err)
	}
	stands(view.StateInterrupted, 0, 0)
}

// A server that restarts during a run knows its state.
func TestRestartDuringRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runtest.Begin(t, dir, "a", 3)
	run.Step(1, evidence.PhaseDone, evidence.ClassPass)
	first := open(t, dir)
	watching := first.watch("a")
	watching.until(done(1))
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	run.Step(2, evidence.PhaseDone, evidence.ClassFail)
	second := open(t, dir)
	if p := second.watch("a").until(done(2)); len(p.Trials) != 2 || p.State != view.StateRunning {
		t.Errorf("%+v", p)
	}
	if got := second.ask("/", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+first.token) }); got.StatusCode != 401 {
		t.Errorf("the token of before: %s", got.Status)
	}
}

// The page shows the state at load time, and where to listen for updates.
func TestLivePage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runtest.Begin(t, dir, "a", 3)
	run.Step(1, evidence.PhaseDone, evidence.ClassFail)
	run.Step(2, evidence.PhaseAgent, "")
	run.Frames(2,
		evidence.Frame{Server: "stock", Conn: "c", Dir: evidence.ToServer, Raw: []byte(`{"id":1,"method":"tools/call","params":{"name":"price"}}`)},
		evidence.Frame{Server: "stock", Conn: "c", Dir: evidence.ToClient, Raw: []byte(`{"id":1,"result":{}}`)},
		evidence.Frame{Server: "stock", Conn: "d", Dir: evidence.ToServer, Raw: []byte(`{"id":1,"method":"tools/call","params":{"name":"<b>reserve"}}`)},
	)
	s := open(t, dir)
	page := s.page("/runs/a/overview")
	for _, want := range []string{`data-live="/runs/a/events"`, "agent at work", "stock &lt;b&gt;reserve", `href="/runs/a/trial/buy/1"`, "connect-src"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, ">at work<"); n != 1 {
		t.Errorf("the page says at work %d times", n)
	}
	for number, want := range map[string]string{"2": "This trial runs.", "3": "This trial has not begun."} { // whose address stays
		if page := s.page("/runs/a/trial/buy/" + number); !strings.Contains(page, want) || !strings.Contains(page, `data-trial="buy/`+number+`"`) {
			t.Errorf("trial %s: %s", number, page)
		}
	}
	for _, number := range []string{"1", "4"} { // that has no verdicts, and that was not planned
		if got := s.ask("/runs/a/trial/buy/"+number, nil); got.StatusCode != http.StatusNotFound {
			t.Errorf("trial %s: %s", number, got.Status)
		}
	}
	p := s.watch("a").until(func(p view.RunProgress) bool { return len(p.Trials) == 2 && p.Trials[1].Call != nil })
	if c := p.Trials[1].Call; c.Server != "stock" || c.Tool != "<b>reserve" {
		t.Errorf("%+v", c)
	}
	if got := api[view.RunProgress](s, "runs/a/progress"); got.Done != 1 || len(got.Trials) != 2 || got.Trials[1].Call == nil {
		t.Errorf("%+v", got)
	}
}
