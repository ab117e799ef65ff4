package trial

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
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

// closer is a file in memory that fails with err where that is set.
type closer struct {
	bytes.Buffer
	err error
}

func (c *closer) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	return c.Buffer.Write(p)
}

func (c *closer) Close() error { return nil }

func TestOutput(t *testing.T) {
	for _, test := range []struct {
		before     int64 // bytes that came already
		head, file string
	}{
		{0, "onetwothree", "onetwothree"},
		{maxFinal - 5, "onetw", "onetwothree"},
		{maxFinal, "", "onetwothree"},
		{plan.DefaultOutput - 5, "", "onetw"},
		{plan.DefaultOutput + 5, "", ""},
	} {
		file := &closer{}
		flooded := false
		o := &output{limit: plan.DefaultOutput, flood: func() { flooded = true }, file: file, head: &bytes.Buffer{}, size: test.before}
		for _, part := range []string{"one", "two", "three"} {
			if n, err := io.WriteString(o, part); n != len(part) || err != nil {
				t.Errorf("%q: %d, %v", part, n, err)
			}
		}
		if o.head.String() != test.head || file.String() != test.file || o.size != test.before+11 || o.close() != nil || flooded != o.isOver() {
			t.Errorf("after %d bytes: kept %q and %q of %d", test.before, o.head, file, o.size)
		}
	}

	full := errors.New("disk full")
	o := &output{limit: plan.DefaultOutput, file: &closer{err: full}}
	if n, err := io.WriteString(o, "one"); n != 3 || err != nil {
		t.Errorf("an agent is held up: %d, %v", n, err)
	}
	if err := o.close(); !errors.Is(err, full) {
		t.Errorf("close: %v", err)
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

func TestOutputThatIsCutIsAnEvent(t *testing.T) {
	dir := evidence.Dir(filepath.Join(t.TempDir(), "1"))
	rec, err := evidence.Create(string(dir), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	work := &agentWork{stage: &stage{recording: &recording{rec: rec}}}
	work.keepOutput(&output{name: "stdout", limit: 5, size: 5}, &output{name: "stderr", limit: 5, size: 6})
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	events, err := dir.Events()
	if err != nil || len(events) != 1 || events[0].Kind != "limit" || events[0].Where != sandbox.Agent ||
		events[0].Message != "only the first 5 of 6 bytes of stderr are kept" {
		t.Errorf("events %+v, %v", events, err)
	}
}
