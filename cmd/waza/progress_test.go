package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/termtest"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/trial"
)

func came(task string, number int, phase evidence.Phase) runner.Update {
	return runner.Update{Task: task, Number: number, Attempt: 1, Phase: phase}
}

func over(task string, number int, class evidence.Class, message string) runner.Update {
	u := came(task, number, evidence.PhaseDone)
	u.Result = &runner.Result{Verdicts: evidence.Verdicts{Class: class, Message: message}}
	return u
}

func environment(pairs ...string) func(string) (string, bool) {
	return func(key string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == key {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// TestLiveView shows a run on a pseudoterminal that changes its size, with others writing
// to it meanwhile: what it shows is at work, and at the end there is what stays alone.
func TestLiveView(t *testing.T) {
	t.Parallel()
	pty := termtest.Open(t, 40, 10)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	s := &screen{out: pty.File}
	fmt.Fprintln(s, "before")
	p := newProgress(ctx, s, environment("TERM", "xterm"), normal, formatDefault, 9, 3)
	shows := func(what string) {
		t.Helper()
		dockertest.Await(t, 3*time.Minute, "the terminal shows "+what, func() bool { return strings.Contains(pty.Text(), what) })
	}

	// A terminal that changes its size between a look at it and a drawing shows remains.
	resize := func(columns, rows int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		pty.Resize(t, columns, rows)
	}

	var all sync.WaitGroup
	for number := range 3 {
		all.Go(func() {
			p.update(came("price", number+1, evidence.PhaseStart))
			for call := range 1000 {
				u := came("price", number+1, evidence.PhaseAgent)
				u.Call = &trial.Calling{Server: "inventory", Tool: "find", Open: 1, Calls: call + 1}
				p.update(u)
			}
		})
	}
	all.Wait()
	p.update(came("price", 1, evidence.PhaseAgent))
	shows("price/1  inventory.find")
	resize(100, 10)
	shows("calling inventory.find")
	shows("1,000 calls")
	shows("0 of 9 trials done")
	p.update(over("price", 1, evidence.ClassFail, "1 of 2 graders failed"))
	p.update(over("price", 2, evidence.ClassPass, ""))
	shows("1 pass, 1 fail")
	fmt.Fprint(s, "said by ")
	fmt.Fprintln(s, "somebody else")
	shows("said by somebody else")
	resize(30, 10)
	interrupt()
	shows("stopping: ending 1 trial")
	p.close()
	p.close()
	fmt.Fprintln(s, "after")
	text, unknown := pty.End(t)
	want := "before\nfail        price/1  0ms  1 of\n 2 graders failed\nsaid by somebody else\nafter"
	if text != want || len(unknown) > 0 {
		t.Errorf("%q, unknown %q", text, unknown)
	}
}

// TestNoLiveView has terminals and outputs on which nothing is drawn.
func TestNoLiveView(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		term, ci string
		loudness verbosity
		format   format
		want     string
	}{
		"dumb":    {"dumb", "", normal, formatDefault, "pass        price/1  0ms\nfail        price/2  0ms\n"},
		"in CI":   {"xterm", "true", normal, formatDefault, "pass        price/1  0ms\nfail        price/2  0ms\n"},
		"quiet":   {"xterm", "false", quiet, formatDefault, "fail        price/2  0ms\n"},
		"as JSON": {"dumb", "", normal, formatJSON, "pass        price/1  0ms\nfail        price/2  0ms  why\n"},
	} {
		pty := termtest.Open(t, 60, 10)
		p := newProgress(t.Context(), &screen{out: pty.File}, environment("TERM", test.term, "CI", test.ci, "NO_COLOR", "1"), test.loudness, test.format, 2, 2)
		p.update(came("price", 1, evidence.PhaseStart))
		p.update(over("price", 1, evidence.ClassPass, ""))
		p.update(over("price", 2, evidence.ClassFail, "why"))
		p.close()
		if got, unknown := pty.End(t); got+"\n" != test.want || len(unknown) > 0 {
			t.Errorf("%s: %q, %q", name, got, unknown)
		}
	}
}

// TestLogOfCI shows a run that is long at work where there is no terminal.
func TestLogOfCI(t *testing.T) {
	t.Parallel()
	for _, l := range []verbosity{quiet, normal} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			p := newProgress(t.Context(), &screen{out: &out}, environment(), l, formatDefault, 4, 2)
			p.update(came("price", 1, evidence.PhaseStart))
			time.Sleep(50 * time.Second)
			p.update(over("price", 1, evidence.ClassPass, ""))
			p.update(came("price", 2, evidence.PhaseStart))
			synctest.Wait()
			time.Sleep(150 * time.Second)
			p.update(over("price", 2, evidence.ClassInfra, "no engine"))
			synctest.Wait()
			p.close()
			want := "incomplete  price/2  0ms\n"
			if l == normal {
				want = "pass        price/1  0ms\n" +
					"at work after 1m50s: price/2 (starting, 60s); 1 of 4 done\n" +
					"at work after 2m50s: price/2 (starting, 2m00s); 1 of 4 done\n" + want
			}
			if out.String() != want {
				t.Errorf("%d: %s", l, out.String())
			}
		})
	}
}

// TestWork shows what takes long, on a terminal and in a log: what a build prints controls neither.
func TestWork(t *testing.T) {
	t.Parallel()
	const hostile = "step 2/3, RUN \x1b[2J::error::\u202e"
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &screen{out: &out}
		step, end := s.work(environment(), "building image")
		time.Sleep(25 * time.Second)
		step(hostile)
		time.Sleep(20 * time.Second)
		end()
		_, end = s.work(environment(), "pulling image")
		time.Sleep(19 * time.Second)
		end()
		want := "building image, after 20s\nbuilding image, after 40s: step 2/3, RUN \\u{1B}[2J::error::\\u{202E}\n"
		if out.String() != want {
			t.Errorf("%q", out.String())
		}
	})
	pty := termtest.Open(t, 60, 10)
	s := &screen{out: pty.File}
	fmt.Fprintln(s, "building image")
	step, end := s.work(environment("TERM", "xterm"), "building image")
	for _, shown := range []string{"step 1/3, FROM x", hostile, "step 3/3, USER 1"} {
		step(shown)
		what := strings.NewReplacer("\x1b", `\u{1B}`, "\u202e", `\u{202E}`).Replace(shown)
		dockertest.Await(t, time.Minute, "the terminal shows "+what, func() bool { return strings.Contains(pty.Text(), what) })
	}
	fmt.Fprintln(s, "a warning")
	end()
	fmt.Fprintln(s, "after")
	if text, unknown := pty.End(t); text != "building image\na warning\nafter" || len(unknown) > 0 {
		t.Errorf("%q, unknown %q", text, unknown)
	}
}

// TestLoudLiveView tells all that end, on a terminal too.
func TestLoudLiveView(t *testing.T) {
	t.Parallel()
	pty := termtest.Open(t, 60, 10)
	p := newProgress(t.Context(), &screen{out: pty.File}, os.LookupEnv, verbose, formatDefault, 2, 2)
	p.update(over("price", 1, evidence.ClassPass, ""))
	p.close()
	if got, _ := pty.End(t); got != "pass        price/1  0ms" {
		t.Errorf("%q", got)
	}
}
