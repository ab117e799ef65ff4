// Package sandboxtest is a test suite for backends.
//
// It does not test walls, which differ between backends.
package sandboxtest

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/tree/treetest"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// limit bounds everything that a test waits for.
const limit = 3 * time.Minute

// Opened is a backend under test.
type Opened struct {
	Backend   sandbox.Opener
	Name      string            // as in guarantees
	Spec      sandbox.Spec      // common part of the backend's sandboxes
	Container sandbox.Container // container of agent and servers
	// NetworkOnly leaves out tests of what is the same on every network of the backend.
	NetworkOnly bool
	// Left returns what is left of the run's sandboxes: directories or containers.
	Left func(t *testing.T) []string
}

// Run runs the suite. open opens a backend in whose [sandbox.Layout] Guest is the suite's own
// static program, and closes it when the test ends.
func Run(t *testing.T, open func(t *testing.T, program string) Opened) {
	s := &suite{Opened: open(t, dockertest.Program(t, "sandbox/sandboxtest/testdata/program", "program"))}
	together := map[string]func(*testing.T, sandbox.Sandbox){
		"guarantees":            s.guarantees,
		"ends":                  s.ends,
		"signals":               s.signals,
		"streams":               s.streams,
		"big output":            s.bigOutput,
		"a slow reader":         s.slowReader,
		"environment":           s.environment,
		"what cannot run":       s.cannotRun,
		"children":              s.children,
		"listen":                s.listen,
		"listen again":          s.listenAgain,
		"dial":                  s.dial,
		"containers of nobody":  s.nobody,
		"containers that stand": s.standing,
		"usage":                 s.usage,
	}
	alone := map[string]func(*testing.T){
		"a lone container": s.lone,
		"models":           s.models,
		"close":            s.closing,
		"several at once":  s.several,
		"gone at the end":  s.goneAtTheEnd,
	}
	if !s.NetworkOnly {
		maps.Copy(alone, map[string]func(*testing.T){
			"layout":           s.layout,
			"files":            s.files,
			"single paths":     s.find,
			"hostile tar":      s.hostileTar,
			"hostile tree":     s.hostileTree,
			"links to config":  s.configLinks,
			"a swapped place":  s.swapped,
			"close with work":  s.closeWithWork,
			"cancelled":        s.cancelled,
			"collect into err": s.collectFails,
			"a closed place":   s.closedPlace,
		})
	}
	t.Run("alone", func(t *testing.T) {
		for name, test := range alone {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	t.Run("together", func(t *testing.T) {
		sb := s.stand(t)
		for name, test := range together {
			t.Run(name, func(t *testing.T) { test(t, sb) })
		}
	})
	if left := s.Left(t); len(left) > 0 {
		t.Errorf("left when all sandboxes are closed: %q", left)
	}
}

type suite struct{ Opened }

// spec returns a sandbox with an agent and two servers, named after the test.
func (s *suite) spec(t *testing.T) *sandbox.Spec {
	spec := s.Spec
	name := t.Name()
	spec.Task, spec.Number = strings.ReplaceAll(name[strings.LastIndex(name, "/")+1:], "_", "-"), 1
	agent := sandbox.AgentContainer(s.Container, "tmpfs", string(mcpconfig.Render(map[string]string{"one": "one", "two": "two"})))
	spec.Containers = []sandbox.ContainerSpec{agent}
	for _, name := range []string{"one", "two"} {
		spec.Containers = append(spec.Containers, sandbox.ContainerSpec{Name: name, Role: sandbox.RoleServer, Container: s.Container})
		spec.Reach = append(spec.Reach, sandbox.Edge{From: sandbox.Agent, Name: name, To: name})
	}
	return &spec
}

// stand opens a sandbox that is closed at the end of the test.
func (s *suite) stand(t *testing.T) sandbox.Sandbox {
	t.Helper()
	return s.standWith(t, s.spec(t))
}

func (s *suite) standWith(t *testing.T, spec *sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	sb, err := s.Backend.Open(within(t), spec, func(evidence.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sb
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func (s *suite) guarantees(t *testing.T, sb sandbox.Sandbox) {
	g := sb.Guarantees()
	if g.Backend != s.Name || g.Network != s.Spec.Network || g.Enforced == nil {
		t.Errorf("guarantees %+v, want those of backend %s", g, s.Name)
	}
}

func (s *suite) closing(t *testing.T) {
	sb := s.stand(t)
	for range 2 {
		if err := sb.Close(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sb.Start(within(t), "one", s.program(sb, "one", "exit", "0")); err == nil {
		t.Error("a program starts in a closed sandbox")
	}
	if err := sb.Put(within(t), sandbox.Agent, sandbox.WorkspaceDir, strings.NewReader("")); err == nil {
		t.Error("a closed sandbox takes files")
	}
	if _, err := sb.Dial(within(t), "one", 1); err == nil {
		t.Error("a closed sandbox is dialled")
	}
}

// closeWithWork checks that Close ends running programs and their output, and that Wait reports
// it: by an error, or by the signal if the guest had still time to report that.
func (s *suite) closeWithWork(t *testing.T) {
	sb := s.stand(t)
	token := t.Name()
	var runs []*running
	for _, container := range []string{sandbox.Agent, "one", "two"} {
		for _, act := range []string{"wait", "deaf"} {
			r := s.start(t, sb, container, act, token)
			r.awaitLine(t, "ready")
			runs = append(runs, r)
		}
	}
	if err := sb.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if e := r.wait(t); e.err == nil && e.exit.Signal != "SIGKILL" {
			t.Errorf("the sandbox went away under a program, and it ended with %+v", e.exit)
		}
	}
	again := s.standWith(t, s.anotherSpec(t))
	if n := s.say(t, again, "one", "count", token); n != "0" {
		t.Errorf("%s programs of a closed sandbox run on", n)
	}
}

func (s *suite) anotherSpec(t *testing.T) *sandbox.Spec {
	spec := s.spec(t)
	spec.Number = 2
	return spec
}

func (s *suite) cancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no longer wanted"))
	sandbox, err := s.Backend.Open(ctx, s.spec(t), func(evidence.Event) {})
	if err == nil {
		_ = sandbox.Close(within(t))
		t.Error("a sandbox was opened with a context that had ended")
	}
	live := s.stand(t)
	if _, err := live.Start(ctx, "one", s.program(live, "one", "wait")); err == nil {
		t.Error("a program was started with a context that had ended")
	}
}

// several checks that a run can have several sandboxes at once.
func (s *suite) several(t *testing.T) {
	one, two := s.stand(t), s.standWith(t, s.anotherSpec(t))
	for i, sb := range []sandbox.Sandbox{one, two} {
		put(t, sb, sandbox.WorkspaceDir, treetest.Entry{Name: "which", Content: string(rune('1' + i))})
	}
	for i, sb := range []sandbox.Sandbox{one, two} {
		place := sb.Layout(sandbox.Agent).At(sandbox.WorkspaceDir + "/which")
		if got := s.say(t, sb, sandbox.Agent, "read", place); got != string(rune('1'+i)) {
			t.Errorf("sandbox %d has the file of %s", i+1, got)
		}
	}
}

func (s *suite) nobody(t *testing.T, sb sandbox.Sandbox) {
	_, startErr := sb.Start(within(t), "nobody", s.program(sb, "one", "exit", "0"))
	_, dialErr := sb.Dial(within(t), "nobody", 80)
	putErr := sb.Put(within(t), "nobody", sandbox.WorkspaceDir, strings.NewReader(""))
	for what, err := range map[string]error{"start": startErr, "dial": dialErr, "put": putErr} {
		if err == nil {
			t.Errorf("%s in a container that is not there", what)
		}
	}
}
