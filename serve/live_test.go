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

	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/evidence"
)

func done(n int) func(RunProgress) bool { return func(p RunProgress) bool { return p.Done == n } }

// Twenty watch a run: one looks at it for all of them, each sees everything, and when
// they have left nobody looks any more.
func TestTwentyWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runtest.Begin(t, dir, "a", 3)
	s := open(t, dir)
	var clients []*stream
	for range 20 {
		clients = append(clients, s.watch("a"))
	}
	looking := func() (runs, clients int) {
		s.watches.mu.Lock()
		defer s.watches.mu.Unlock()
		return len(s.watches.runs), s.watches.clients
	}
	s.watches.mu.Lock()
	if all := len(s.watches.runs["a"].clients); all != 20 {
		t.Errorf("one looks for %d clients", all)
	}
	s.watches.mu.Unlock()
	run.Step(1, runner.PhaseStart, "")
	run.Step(2, runner.PhaseStart, "")
	run.Step(1, runner.PhaseDone, evidence.ClassPass)
	for _, c := range clients {
		p := c.until(done(1))
		if p.State != StateRunning || p.Planned != 3 || p.Outcomes[evidence.ClassPass] != 1 || p.LeftMS == nil {
			t.Errorf("%+v", p)
		}
	}
	run.Step(2, runner.PhaseDone, evidence.ClassFail)
	for _, c := range clients {
		if p := c.until(done(2)); len(p.Trials) != 1 || p.Trials[0].Number != 2 || p.Trials[0].Outcome != evidence.ClassFail {
			t.Errorf("what has changed is %+v", p.Trials)
		}
	}
	run.Interrupt()
	for _, c := range clients {
		c.until(func(p RunProgress) bool { return p.State == StateInterrupted })
		if name, _, err := c.next(); name != "end" || err != nil {
			t.Errorf("%q, %v behind the end of the run", name, err)
		}
		if _, _, err := c.next(); err != io.EOF {
			t.Errorf("%v behind the end", err)
		}
	}
	for until := time.Now().Add(enough); ; time.Sleep(time.Millisecond) {
		if runs, all := looking(); runs == 0 && all == 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatal("somebody still looks")
		}
	}
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
		run.Step(n, runner.PhaseDone, evidence.ClassPass)
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

// A client that does not look is told once, and nobody waits for it.
func TestClientsThatDoNotLook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runtest.Begin(t, dir, "a", 9)
	w := newWatches(newShelf(dir, runner.Held), time.Millisecond, time.Now)
	_, leave, err := w.join(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	looks, leave2, err := w.join(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 9; n++ {
		run.Step(n, runner.PhaseDone, evidence.ClassPass)
		for seen := 0; seen < n; {
			select {
			case <-looks.news:
			case <-time.After(enough):
				t.Fatalf("nothing is told of trial %d", n)
			}
			if s, any := w.latest(looks); any && s.told != nil {
				seen, _ = s.told.counts()
			}
		}
	}
	leave()
	leave2()
	w.ended.Wait()
}

// However a run ends, who watches is told, and who comes then sees how it stands: killed,
// resumed, deleted, and another of its name.
func TestEndsOfRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runtest.Begin(t, dir, "a", 3)
	run.Step(1, runner.PhaseDone, evidence.ClassPass)
	run.Step(2, runner.PhaseAgent, "")
	s := open(t, dir)
	ends := func(c *stream, state State) {
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
			if state == StateUnreadable && p.State == state {
				t.Errorf("of a run that is gone: %+v", p)
			}
		}
	}
	stands := func(state State, done, begun int) {
		t.Helper()
		listed := byID(api[RunList](s, "runs").Runs)["a"]
		if p := api[RunProgress](s, "runs/a/progress"); p.State != state || p.Done != done || len(p.Trials) != begun || listed.State != state || listed.Done != done {
			t.Errorf("%+v, listed as %+v, want %s and %d done", p, listed, state, done)
		}
		page := s.page("/runs/a/overview")
		if strings.Contains(page, "data-live=") != (state == StateRunning) {
			t.Errorf("the page of a run that is %s has events: %t", state, state != StateRunning)
		}
	}
	watching := s.watch("a")
	watching.until(done(1))
	stands(StateRunning, 1, 2)
	run.Kill()
	ends(watching, StateInterrupted)
	stands(StateInterrupted, 1, 2)

	run.Resume()
	watching = s.watch("a")
	run.Step(2, runner.PhaseStart, "")
	run.Step(2, runner.PhaseDone, evidence.ClassFail)
	watching.until(done(2))
	stands(StateRunning, 2, 2)
	if err := os.RemoveAll(run.Dir); err != nil {
		t.Fatal(err)
	}
	ends(watching, StateUnreadable)

	if err := errors.Join(os.Mkdir(run.Dir, 0o755), run.Record.Write(run.Dir)); err != nil {
		t.Fatal(err)
	}
	stands(StateInterrupted, 0, 0)
}

// A server that is started anew in the midst of a run knows where it stands.
func TestRestartDuringRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runtest.Begin(t, dir, "a", 3)
	run.Step(1, runner.PhaseDone, evidence.ClassPass)
	first := open(t, dir)
	watching := first.watch("a")
	watching.until(done(1))
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	run.Step(2, runner.PhaseDone, evidence.ClassFail)
	second := open(t, dir)
	if p := second.watch("a").until(done(2)); len(p.Trials) != 2 || p.State != StateRunning {
		t.Errorf("%+v", p)
	}
	if got := second.ask("/", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+first.token) }); got.StatusCode != 401 {
		t.Errorf("the token of before: %s", got.Status)
	}
}

// The page says how things stand as it is loaded, and where it hears of more.
func TestLivePage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runtest.Begin(t, dir, "a", 3)
	run.Step(1, runner.PhaseDone, evidence.ClassFail)
	run.Step(2, runner.PhaseAgent, "")
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
	p := s.watch("a").until(func(p RunProgress) bool { return len(p.Trials) == 2 && p.Trials[1].Call != nil })
	if c := p.Trials[1].Call; c.Server != "stock" || c.Tool != "<b>reserve" {
		t.Errorf("%+v", c)
	}
	if got := api[RunProgress](s, "runs/a/progress"); got.Done != 1 || len(got.Trials) != 2 || got.Trials[1].Call == nil {
		t.Errorf("%+v", got)
	}
}

// A run that goes on writes lines in pieces, and one that is resumed makes trials again.
func TestTrackerReadsWhatIsWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lay(t, filepath.Join(dir, "a", runner.RunFile), "{}")
	p, err := openPlace(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	name := filepath.Join(dir, "a", evidence.ProgressFile)
	tracker := newTracker()
	for _, step := range []struct {
		add   string
		ended int
	}{
		{"", 0},
		{`{"task":"buy","number":1,"attempt":1,"phase":"do`, 0},
		{`ne","outcome":"pass"}` + "\n", 1},
		{"broken\n{}\n[]\n" + strings.Repeat("x", 3*maxTold), 1},
		{"\n" + `{"task":"buy","number":2,"attempt":1,"phase":"done","outcome":"infra"}` + "\n", 2},
		{`{"task":"buy","number":2,"attempt":2,"phase":"starting"}` + "\n", 1},
		{`{"task":"buy","number":2,"attempt":2,"phase":"done","outcome":"pass"}` + "\n", 2},
	} {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(step.add); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		tracker.read(p)
		if ended, _ := tracker.counts(); ended != step.ended {
			t.Errorf("behind %.60q %d have ended, want %d", step.add, ended, step.ended)
		}
	}
	if err := evidence.WriteFile(name, []byte(`{"task":"other","number":1,"attempt":1,"phase":"starting"}`+"\n")); err != nil {
		t.Fatal(err)
	}
	tracker.read(p)
	if a := tracker.account(0); a.ended != 0 || len(a.trials) != 1 || a.trials[0].Task != "other" {
		t.Errorf("of another file: %+v", a)
	}
}

// FuzzProgress: whatever a run's account says, it is followed within bounds.
func FuzzProgress(f *testing.F) {
	f.Add([]byte(`{"t":"2026-01-02T03:04:05Z","task":"a","number":1,"attempt":1,"phase":"done","outcome":"pass"}` + "\n"))
	f.Add([]byte(`{"task":"a","number":1,"phase":"` + strings.Repeat("x", 9999) + `"}`))
	f.Add([]byte(`{"task":"a","number":1,"phase":"done"}` + "\n" + `{"task":"a","number":1,"phase":"done"}`))
	f.Fuzz(func(t *testing.T, lines []byte) {
		tracker := newTracker()
		tracker.takeLocked(lines)
		a := tracker.account(0)
		for _, trial := range a.trials {
			if len(trial.Task)+len(trial.Phase)+len(trial.Outcome)+len(trial.Reason)+len(trial.Message) > 2*maxToldName+maxToldMessage+3 {
				t.Errorf("%+v", trial)
			}
		}
		if a.ended < 0 || a.ended > len(a.trials) {
			t.Errorf("%d of %d have ended", a.ended, len(a.trials))
		}
	})
}

// FuzzOpenCall: whatever stands in frames.
func FuzzOpenCall(f *testing.F) {
	f.Add([]byte(`{"seq":1,"server":"s","conn":"c","dir":"to_server","raw":"{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}"}` + "\n"))
	f.Add([]byte(`{"seq":1,"server":"` + strings.Repeat("s", 9999) + `","dir":"to_server","raw":"{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}"}` + "\n"))
	f.Fuzz(func(t *testing.T, lines []byte) {
		if call := newestOpen(lines); call != nil && (len(call.Tool) > maxToldName+3 || len(call.Server) > maxToldName+3) {
			t.Errorf("%+v", call)
		}
	})
}
