package sandboxtest

import (
	"testing"

	"github.com/waza-isolate/waza/sandbox"
)

// containers returns the names of the containers of the suite's trials.
func containers() []string { return []string{sandbox.Agent, "one", "two"} }

// standing checks that a container keeps running after its programs have exited.
func (s *suite) standing(t *testing.T, sb sandbox.Sandbox) {
	for _, container := range []string{sandbox.Agent, "one"} {
		s.run(t, sb, container, "exit", "7")
	}
	for _, container := range containers() {
		if e := sb.Ended(within(t), container); e != (sandbox.Exit{}) {
			t.Errorf("%s ended: %+v", container, e)
		}
		select {
		case <-sb.Gone(container):
			t.Errorf("%s is gone", container)
		default:
		}
	}
}

// goneAtTheEnd checks that every container is gone after its sandbox was closed.
func (s *suite) goneAtTheEnd(t *testing.T) {
	sb := s.stand(t)
	if sb.Gone(sandbox.Agent) == nil {
		t.Skip("the backend's containers end with Close alone")
	}
	if err := sb.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	for _, container := range containers() {
		select {
		case <-sb.Gone(container):
		case <-within(t).Done():
			t.Errorf("%s is not gone", container)
		}
	}
}
