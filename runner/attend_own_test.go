package runner

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/sandbox/process"
)

// immortal is a program that no signal ends.
type immortal struct{ gone chan error }

func (p immortal) Stdin() io.WriteCloser       { return stayingOpen{io.Discard} }
func (p immortal) Stdout() io.Reader           { return strings.NewReader("") }
func (p immortal) Stderr() io.Reader           { return strings.NewReader("") }
func (p immortal) Signal(process.Signal) error { return nil }
func (p immortal) Wait() (process.Exit, error) { return process.Exit{}, <-p.gone }

// An agent that does not end by any means is not waited for, and seen off when its
// sandbox ends.
func TestAwaitBeyondUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("container went away")
		p := immortal{make(chan error)}
		stdout, stderr := &output{file: &closer{}}, &output{file: &closer{}}
		a := attend(p, nil, stdout, stderr)
		limit, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took := a.await(limit, nil, nil); took != overrun || a.endsWithin(0) {
			t.Errorf("span %v", took)
		}
		p.gone <- gone
		<-a.ended
		if !errors.Is(a.err, gone) || a.kept != nil {
			t.Errorf("%v, %v", a.err, a.kept)
		}
	})
}
