package sandboxtest

import (
	"testing"

	"github.com/waza-isolate/waza/sandbox"
)

// boxes are those of a trial of the suite.
func boxes() []string { return []string{sandbox.Agent, "one", "two"} }

// A box in which programs come and go, however they end, stands.
func (s *suite) standing(t *testing.T, sb sandbox.Sandbox) {
	for _, box := range []string{sandbox.Agent, "one"} {
		s.run(t, sb, box, "exit", "7")
	}
	for _, box := range boxes() {
		if e := sb.Ended(within(t), box); e != (sandbox.Exit{}) {
			t.Errorf("%s ended: %+v", box, e)
		}
		select {
		case <-sb.Gone(box):
			t.Errorf("%s is gone", box)
		default:
		}
	}
}

// Every box is gone once its sandbox is closed.
func (s *suite) goneAtTheEnd(t *testing.T) {
	sandbox := s.stand(t)
	if err := sandbox.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	for _, box := range boxes() {
		select {
		case <-sandbox.Gone(box):
		case <-within(t).Done():
			t.Errorf("%s is not gone", box)
		}
	}
}
