package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// serviceTrial is testTrial with a service of the server's.
func serviceTrial() *plan.Trial {
	t := testTrial(1)
	t.Servers[0].Services = []plan.Service{{
		Name: "db", Ports: []int{1}, Files: []plan.File{plan.NewFile("/data/seed", "x")}, Ready: plan.Ready{Timeout: time.Minute},
		Expanded: mcpconfig.Service{Command: "postgres", Env: map[string]string{"A": "b"}, Ready: &mcpconfig.Ready{Exec: []string{"is-ready"}}},
	}}
	return t
}

// complains is a program that writes text to stderr and does then what it does.
func complains(text string, then program) program {
	return program{run: func(p *fakeProcess) int {
		io.WriteString(p.err, text)
		return then.run(p)
	}}
}

func serviceBackend() *fakeBackend {
	b := testBackend()
	b.programs["stock/db"] = lasts()
	return b
}

func TestServicesStartBeforeTheirServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := serviceBackend(), options(t)
		o.Host.Secrets.Add("hunter2-and-more")
		b.programs["stock/db"] = complains("the password is hunter2-and-more\n", lasts())
		b.ready = func(context.Context, func(string)) error { time.Sleep(time.Second); return nil }
		r := runOne(t, b, serviceTrial(), o)
		wantOutcome(t, r, evidence.ClassPass, "")
		want := []string{"open", "put stock/db /", "start stock/db", `ready stock/db ["is-ready"]`, "put stock /", "start stock", "put agent /workspace", "listen"}
		if diff := cmp.Diff(want, b.opened()[0].log()[:len(want)]); diff != "" {
			t.Error(diff)
		}
		db := b.opened()[0].processes[0].spec
		if !cmp.Equal(db.Args, []string{"postgres"}) || !slices.Contains(db.Env, "A=b") {
			t.Errorf("the service is %+v", db)
		}
		if got := readFile(t, r, "servers/stock.db.stderr"); got != "the password is ****************\n" {
			t.Errorf("its stderr is %q", got)
		}
		if events := readFile(t, r, evidence.EventsFile); strings.Contains(events, "service_exit") {
			t.Errorf("its end with the sandbox is told:\n%s", events)
		}
	})
}

func TestServiceIsNotReady(t *testing.T) {
	untilReported := func(ctx context.Context, _ func(string)) error {
		<-ctx.Done()
		return errors.New("its check exited with code 2")
	}
	for name, test := range map[string]struct {
		change func(*fakeBackend)
		want   string
	}{
		"in time": {func(b *fakeBackend) {
			b.ready, b.programs["stock/db"] = untilReported, complains("loading hunter2-and-more\n", lasts())
		}, "service \"db\" of server \"stock\" is not ready: 1m0s have passed: its check exited with code 2; its output:\nloading ****************"},
		"and silent": {func(b *fakeBackend) { b.ready = untilReported }, "1m0s have passed: its check exited with code 2; it wrote nothing"},
		"since it exits": {func(b *fakeBackend) {
			b.ready, b.programs["stock/db"] = untilReported, complains("no disk\n", ends(1))
		}, "is not ready: it exited with code 1; its output:\nno disk"},
		"since its check is missing": {func(b *fakeBackend) {
			b.ready = func(context.Context, func(string)) error { return errors.New("no such program") }
		}, "is not ready: no such program; it wrote nothing"},
		"since it does not start": {func(b *fakeBackend) {
			b.on["start stock/db"] = fails(errors.New("no such program"))
		}, `service "db" of server "stock" did not start: no such program`},
		"for want of files": {func(b *fakeBackend) {
			b.on["put stock/db /"] = fails(errors.New("no space"))
		}, `service "db" of server "stock" did not get its files: no space`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, o := serviceBackend(), options(t)
				o.Host.Secrets.Add("hunter2-and-more")
				test.change(b)
				r := runOne(t, b, serviceTrial(), o)
				wantOutcome(t, r, evidence.ClassInfra, test.want)
				if b.opened()[0].count("start agent") != 0 {
					t.Error("the agent was started")
				}
			})
		})
	}
}

// A check that fails in the same way for a while is told of while the service is waited for: once, and
// without secrets.
func TestServiceWaitIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := serviceBackend(), options(t)
		o.Host.Secrets.Add("hunter2-and-more")
		var said []string
		begun := time.Now()
		o.Host.Say = func(what string) { said = append(said, fmt.Sprint(time.Since(begun).Round(time.Second), " ", what)) }
		b.ready = func(_ context.Context, failed func(string)) error {
			for i := range 100 {
				found := "no role hunter2-and-more"
				if i < 30 {
					found = fmt.Sprint("starting ", i/10) // of 1 s each
				}
				failed(found)
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		}
		two := []*plan.Trial{serviceTrial(), serviceTrial()}
		two[1].Number = 2
		if _, err := runTrials(t, t.Context(), b, two, o); err != nil {
			t.Fatal(err)
		}
		if want := []string{`8s service "db" of server "stock" is not ready yet: no role ****************`}; !cmp.Equal(want, said) {
			t.Errorf("said %q", said)
		}
	})
}

func TestServiceEndIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serviceBackend()
		b.programs["stock/db"] = program{run: func(*fakeProcess) int { time.Sleep(5 * time.Second); return 7 }}
		b.on["collect agent /workspace"] = func(int) error { time.Sleep(10 * time.Second); return nil }
		r := runOne(t, b, serviceTrial(), options(t))
		wantOutcome(t, r, evidence.ClassPass, "")
		if events := readFile(t, r, evidence.EventsFile); !strings.Contains(events, `"kind":"service_exit","where":"stock/db","message":"exited with code 7"`) {
			t.Errorf("events:\n%s", events)
		}
	})
}

// bareBackend has sandboxes that know nothing of services.
type bareBackend struct{ *fakeBackend }

func (b bareBackend) Open(ctx context.Context, spec *sandbox.Spec, observe func(evidence.Event)) (sandbox.Sandbox, error) {
	s, err := b.fakeBackend.Open(ctx, spec, observe)
	return struct{ sandbox.Sandbox }{s}, err
}

func TestBackendWithoutServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results, err := runTrials(t, t.Context(), bareBackend{serviceBackend()}, []*plan.Trial{serviceTrial()}, options(t))
		if err != nil || len(results) != 1 {
			t.Fatalf("%d results, %v", len(results), err)
		}
		wantOutcome(t, results[0], evidence.ClassInfra, `service "db" of server "stock" cannot be run by this backend`)
	})
}

func readFile(t *testing.T, r Result, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(string(r.Dir), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
