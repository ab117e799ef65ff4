package runner

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// works is an agent that does something to its sandbox, and then runs until it is
// ended.
func works(do func(s *fakeSandbox)) program {
	return program{run: func(p *fakeProcess) int {
		io.WriteString(p.out, "4.20")
		do(p.container)
		<-p.ctx.Done()
		return 0
	}}
}

// The cause of an exit decides the class of the failure, and its message is the reason.
func TestWhoseFault(t *testing.T) {
	itself := sandbox.Exit{Cause: sandbox.ByItself, Message: "went away"}
	breach := sandbox.Exit{Cause: sandbox.ByBreach, Message: "broke the rules"}
	outside := sandbox.Exit{Cause: sandbox.FromOutside, Message: "was killed"}
	engine := sandbox.Exit{Cause: sandbox.ByEngine, Message: "the engine went away"}
	lose := func(container string, e sandbox.Exit) program {
		return works(func(s *fakeSandbox) { s.lose(container, e) })
	}
	// own is an agent whose own container ends under it.
	own := func(e sandbox.Exit) program {
		return program{run: func(p *fakeProcess) int {
			p.container.lose(sandbox.Agent, e)
			p.end(process.Exit{}, errGone)
			return 0
		}}
	}
	exits := func(container string, e sandbox.Exit, code int) program {
		return program{run: func(p *fakeProcess) int { p.container.lose(container, e); return code }}
	}
	for _, test := range []struct {
		name   string
		agent  program
		class  evidence.Class
		reason evidence.Reason
		says   string
	}{
		{"its own guest", own(itself), evidence.ClassAgentError, evidence.ReasonGuest, "the agent broke its container's guest: went away"},
		{"its own mux", own(breach), evidence.ClassAgentError, evidence.ReasonMux, "broke the rules"},
		{"killed from outside", own(outside), evidence.ClassInfra, evidence.ReasonKilled, "the agent: was killed"},
		{"the engine", own(engine), evidence.ClassInfra, evidence.ReasonEngine, "the engine went away"},
		{"its own guest, and a good end", exits(sandbox.Agent, itself, 0), evidence.ClassAgentError, evidence.ReasonGuest, "the agent broke its container's guest"},
		{"killed from outside, and a bad end", exits(sandbox.Agent, outside, 1), evidence.ClassInfra, evidence.ReasonKilled, "the agent: was killed"},
		{"a server from outside", lose("stock", outside), evidence.ClassInfra, evidence.ReasonKilled, `server "stock": was killed`},
		{"a server with the engine", lose("stock", engine), evidence.ClassInfra, evidence.ReasonEngine, "the engine went away"},
		{"a server by itself", lose("stock", itself), evidence.ClassTimeout, evidence.ReasonTimeLimit, "ran longer"},
		{"a server that breaks rules", lose("stock", breach), evidence.ClassTimeout, evidence.ReasonTimeLimit, "ran longer"},
		{"exit code", ends(3), evidence.ClassAgentError, evidence.ReasonExitCode, "code 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := testBackend()
				b.programs[sandbox.Agent] = test.agent
				began := time.Now()
				r := runOne(t, b, testTrial(1), options(t))
				if r.Verdicts.Class != test.class || r.Verdicts.Reason != test.reason || !strings.Contains(r.Verdicts.Message, test.says) {
					t.Errorf("%s (%s): %s; want %s (%s): …%s…", r.Verdicts.Class, r.Verdicts.Reason, r.Verdicts.Message, test.class, test.reason, test.says)
				}
				if took := time.Since(began); test.class != evidence.ClassTimeout && took > testTrial(1).Timeout/2 {
					t.Errorf("it took %v to notice", took)
				}
				if graded := len(r.Verdicts.Verdicts) > 0; graded != (test.class != evidence.ClassInfra) {
					t.Errorf("graded: %t", graded)
				}
			})
		})
	}
}

// A server that breaks the rules just before the agent ends is on record all the same.
func TestBreachBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testBackend()
		b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
			p.container.lose("stock", sandbox.Exit{Cause: sandbox.ByBreach, Message: "broke the rules"})
			return 0
		}}
		b.looks = time.Second
		r := runOne(t, b, testTrial(1), options(t))
		events, err := r.Dir.Events()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(events, func(e evidence.Event) bool { return e.Where == "stock" && e.Message == "broke the rules" }) {
			t.Errorf("not on record: %+v", events)
		}
	})
}

// What fails before the agent starts has a reason of its own, or that of a container which
// somebody else ended.
func TestReasonsOfInfra(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		act  string
		err  error
		lost sandbox.Exit
		want evidence.Reason
	}{
		{"open", broken, sandbox.Exit{}, evidence.ReasonSandbox},
		{"open", errors.Join(sandbox.ErrEngineGone, broken), sandbox.Exit{}, evidence.ReasonEngine},
		{"start stock", broken, sandbox.Exit{}, evidence.ReasonServer},
		{"start stock", broken, sandbox.Exit{Cause: sandbox.ByItself}, evidence.ReasonServer},
		{"start stock", broken, sandbox.Exit{Cause: sandbox.ByEngine}, evidence.ReasonEngine},
		{"start stock", broken, sandbox.Exit{Cause: sandbox.FromOutside}, evidence.ReasonKilled},
		{"listen", broken, sandbox.Exit{}, evidence.ReasonSandbox},
		{"put agent /workspace", broken, sandbox.Exit{Cause: sandbox.ByEngine}, evidence.ReasonEngine},
		{"start agent", broken, sandbox.Exit{}, evidence.ReasonSandbox},
		{"start agent", broken, sandbox.Exit{Cause: sandbox.FromOutside}, evidence.ReasonKilled},
		{"collect agent /workspace", broken, sandbox.Exit{Cause: sandbox.ByEngine}, evidence.ReasonEngine},
		{"close", broken, sandbox.Exit{}, evidence.ReasonRunner},
	} {
		t.Run(test.act+string(test.lost.Cause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := testBackend()
				b.on[test.act] = func(int) error {
					if test.lost.Cause != "" {
						b.opened()[0].lose("stock", test.lost)
					}
					return test.err
				}
				r := runOne(t, b, testTrial(1), options(t))
				if r.Verdicts.Class != evidence.ClassInfra || r.Verdicts.Reason != test.want {
					t.Errorf("%s (%s): %s, want infra (%s)", r.Verdicts.Class, r.Verdicts.Reason, r.Verdicts.Message, test.want)
				}
			})
		})
	}
}

// A workspace that cannot be had is the agent's doing where nobody else is to blame.
func TestCollectFailsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testBackend()
		b.on["collect agent /workspace"] = func(int) error {
			b.opened()[0].lose(sandbox.Agent, sandbox.Exit{Cause: sandbox.ByItself})
			return errors.New("broken")
		}
		r := runOne(t, b, testTrial(1), options(t))
		if r.Verdicts.Class != evidence.ClassAgentError || len(r.Trial.Gaps) != 1 {
			t.Errorf("%s, gaps %q", r.Verdicts.Class, r.Trial.Gaps)
		}
	})
}

// recovering is a backend that comes back.
type recovering struct {
	*fakeBackend
	recover func(ctx context.Context) error
}

func (r recovering) Reconnect(ctx context.Context) error { return r.recover(ctx) }
