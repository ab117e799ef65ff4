package trial

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// immortal is a program that no signal ends.
type immortal struct{ gone chan error }

func (p immortal) Stdin() io.WriteCloser { return stayingOpen{io.Discard} }

func (p immortal) Stdout() io.Reader { return strings.NewReader("") }

func (p immortal) Stderr() io.Reader { return strings.NewReader("") }

func (p immortal) Signal(process.Signal) error { return nil }

func (p immortal) Wait() (process.Exit, error) { return process.Exit{}, <-p.gone }

// An agent that does not end by any means is not waited for, and seen off when its
// sandbox ends.
func TestAwaitBeyondUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("container went away")
		p := immortal{make(chan error)}
		agent := process.Communicate(p, nil, io.Discard, io.Discard)
		w := &agentWork{stage: &stage{endpoints: &endpoints{}, log: observer{misses: newMisses()}}, stops: newStops(time.Now)}
		defer startAgentClock(time.Second, w.stops).stop()
		before := time.Now()
		stopped := w.await(t.Context(), agent)
		if len(stopped) != 1 || stopped[0] != (stop{before.Add(time.Second), timeLimit}) || agent.HasEnded() {
			t.Errorf("stopped for %v", stopped)
		}
		p.gone <- gone
		if _, err := agent.Wait(); !errors.Is(err, gone) {
			t.Error(err)
		}
	})
}

// outputsIn opens the outputs of an agent that may write so much.
func outputsIn(t *testing.T, limit int64) (*agentWork, func() (evidence.Dir, []evidence.Event)) {
	t.Helper()
	dir := evidence.Dir(filepath.Join(t.TempDir(), "1"))
	rec, err := evidence.Create(string(dir), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	planned := &plan.Trial{Agent: plan.Agent{MaxOutput: limit}}
	w := &agentWork{stage: &stage{plan: planned, log: observer{Recorder: rec, acted: new(atomic.Bool)}}, stops: newStops(time.Now)}
	w.out, err = openOutputs(planned, rec, w.stops)
	if err != nil {
		t.Fatal(err)
	}
	return w, func() (evidence.Dir, []evidence.Event) {
		t.Helper()
		if err := errors.Join(w.out.close(), rec.Close()); err != nil {
			t.Fatal(err)
		}
		events, err := dir.Events()
		if err != nil {
			t.Fatal(err)
		}
		return dir, events
	}
}

// The beginning of an output is kept, the agent is not held up beyond that, and what is cut is
// an event.
func TestOutputs(t *testing.T) {
	const said = "onetwothree"
	for name, test := range map[string]struct {
		limit       int64
		kept, event string
	}{
		"all":               {20, said, ""},
		"up to the limit":   {5, "onetw", "only the first 5 bytes of stdout are kept"},
		"exactly the limit": {11, said, ""},
	} {
		w, close := outputsIn(t, test.limit)
		to := w.out.stdout.unfailing(w.stage.log.acted)
		for _, part := range []string{"one", "two", "three"} {
			if n, err := io.WriteString(to, part); n != len(part) || err != nil {
				t.Errorf("%s: %q: %d, %v", name, part, n, err)
			}
		}
		if err := w.out.close(); err != nil {
			t.Error(err)
		}
		final, overlong, err := w.keepOutput()
		if err != nil || overlong {
			t.Errorf("%s: overlong %v, %v", name, overlong, err)
		}
		dir, events := close()
		file, err := os.ReadFile(filepath.Join(string(dir), evidence.StdoutFile))
		if err != nil || string(file) != test.kept || final.text != test.kept || !w.stage.log.acted.Load() {
			t.Errorf("%s: kept %q and %q, %v", name, file, final.text, err)
		}
		flooded := process.IsClosed(w.stops.first)
		if flooded != (test.event != "") || flooded != (len(events) == 1) {
			t.Errorf("%s: flooded %v, events %+v", name, flooded, events)
		}
		if len(events) == 1 && (events[0].Kind != "limit" || events[0].Where != sandbox.Agent || events[0].Message != test.event) {
			t.Errorf("%s: %+v", name, events[0])
		}
	}
}

// Only the beginning is kept of a final output that is larger than graders take.
func TestFinalOutputThatIsTooLarge(t *testing.T) {
	for over, want := range []bool{false, true} {
		w, close := outputsIn(t, maxFinal+10)
		if _, err := io.CopyN(w.out.stdout.unfailing(w.stage.log.acted), zeroReader{}, maxFinal+int64(over)); err != nil {
			t.Fatal(err)
		}
		if err := w.out.close(); err != nil {
			t.Error(err)
		}
		final, overlong, err := w.keepOutput()
		if _, events := close(); err != nil || len(events) != 0 || len(final.text) != maxFinal || overlong != want {
			t.Errorf("%d bytes, overlong %v, %+v, %v", len(final.text), overlong, events, err)
		}
	}
}

func TestReadHead(t *testing.T) {
	zeros := io.LimitReader(zeroReader{}, maxFinal)
	if text, err := readHead(zeros); len(text) != maxFinal || err != nil {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if text, err := readHead(zeroReader{}); len(text) != maxFinal || !errors.Is(err, errTooLarge) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }
