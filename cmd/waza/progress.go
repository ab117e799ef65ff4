package main

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/liveview"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/runner"
)

// verbosity is how much a run prints while it is running.
type verbosity int

const (
	quiet   verbosity = iota - 1 // trials that did not pass
	normal                       // also a live view on a terminal, or else each trial that ended
	verbose                      // each trial that ended, on a terminal too
)

// progress shows trials while they run: on a terminal as a live view, elsewhere as a line for each trial that
// ended, or when none has ended for a minute. Updates do not wait for the terminal.
type progress struct {
	screen    *screen
	live      bool
	verbosity verbosity
	summary   bool // the reasons why trials did not pass are printed at the end
	style     terminal.Style
	running   context.Context // done after an interrupt

	wake  chan struct{}
	quit  chan struct{}
	ended sync.WaitGroup
	once  sync.Once

	mu    sync.Mutex
	state *liveview.State // guarded by mu
	text  strings.Builder // lines to be written; guarded by mu
}

const (
	redraw = 200 * time.Millisecond
	// pulse is the longest time without output, if there is no live view.
	pulse = time.Minute
	// workPulse is the same during preparations of a run.
	workPulse = 20 * time.Second
)

// newProgress shows the progress of total trials, of which at most workers run at once, until it is closed.
func newProgress(ctx context.Context, s *screen, lookup func(string) (string, bool), l verbosity, f format, total, workers int) *progress {
	live, style := s.draws(lookup)
	p := &progress{
		screen: s, live: live && l != quiet, verbosity: l, summary: f == formatDefault, style: style, running: ctx,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), state: liveview.New(total, workers, time.Now()),
	}
	p.ended.Go(p.show)
	return p
}

// show writes pending lines until the progress is closed.
func (p *progress) show() {
	every := pulse
	if p.live {
		every = redraw
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			_ = p.screen.draw(p.takeText(), nil)
			return
		case <-p.wake:
			p.write(p.takeText())
			if !p.live {
				tick.Reset(every)
			}
		case <-tick.C:
			p.write(p.takeText() + p.pulse())
		}
	}
}

// write prints text and redraws the live view, if there is one.
func (p *progress) write(text string) {
	switch {
	case p.live:
		_ = p.screen.draw(text, p.frame)
	case text != "":
		_ = p.screen.draw(text, nil)
	}
}

func (p *progress) frame(size liveview.Size) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Stopping = p.running.Err() != nil
	return p.state.Frame(time.Now(), size, p.style)
}

// takeText returns the pending lines and clears them.
func (p *progress) takeText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.text.String()
	p.text.Reset()
	return text
}

// pulse returns a line to print after a minute without output, for a run without a live view.
func (p *progress) pulse() string {
	if p.live || p.verbosity == quiet {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Stopping = p.running.Err() != nil
	return p.state.Pulse(time.Now()) + "\n"
}

// close removes the live view. It may be called twice.
func (p *progress) close() {
	p.once.Do(func() {
		close(p.quit)
		p.ended.Wait()
	})
}

// update takes an update from the runner.
func (p *progress) update(u runner.Update) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Update(u, time.Now())
	if u.Result == nil || !p.prints(u.Result.Verdicts.Class) {
		return
	}
	p.text.WriteString(liveview.Ended(u, !p.repeats(u.Phase), p.style) + "\n")
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// prints reports whether to print the end of an attempt with the given class.
func (p *progress) prints(class evidence.Class) bool {
	return class != evidence.ClassPass || p.verbosity == verbose || !p.live && p.verbosity == normal
}

// repeats reports whether the end of the run will repeat, in the same log, why an attempt ended.
func (p *progress) repeats(phase evidence.Phase) bool {
	return p.summary && !p.live && (phase == evidence.PhaseDone || p.verbosity != quiet)
}

// screen writes a command's messages above a live view, if there is one. It filters terminal control
// sequences. It is safe for concurrent use.
type screen struct {
	out io.Writer

	mu      sync.Mutex
	plain   *text.Plain     // to cleaned; guarded by mu
	cleaned bytes.Buffer    // guarded by mu
	view    liveview.Screen // guarded by mu
	lines   []string        // lines of the live view; guarded by mu
	partial []byte          // an unfinished line; guarded by mu
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clean := s.cleanLocked(p)
	if len(s.lines) == 0 {
		_, err := s.out.Write(clean)
		return len(p), err
	}
	s.partial = append(s.partial, clean...)
	end := bytes.LastIndexByte(s.partial, '\n') + 1
	text := string(s.partial[:end])
	s.partial = s.partial[end:]
	if text == "" {
		return len(p), nil
	}
	return len(p), s.drawLocked(text, s.lines, s.size())
}

// cleanLocked returns the part of p to write, without control sequences.
func (s *screen) cleanLocked(p []byte) []byte {
	if s.plain == nil {
		s.plain = text.NewPlain(&s.cleaned, ownSequences(s.out)...)
	}
	s.cleaned.Reset()
	_, _ = s.plain.Write(p) // a Buffer never fails
	return s.cleaned.Bytes()
}

// draws reports whether lines can be redrawn, which they cannot in a CI log, since that keeps each version.
// It also returns the style of text.
func (s *screen) draws(lookup func(string) (string, bool)) (bool, terminal.Style) {
	_, isTerminal := terminalOf(s.out)
	kind, _ := lookup("TERM")
	inCI, _ := lookup("CI")
	return isTerminal && kind != "dumb" && (inCI == "" || inCI == "false"), terminal.StyleFor(isTerminal, lookup)
}

// work shows a long operation and its current step until end is called: on a terminal as a line that is
// redrawn, elsewhere as a line every workPulse.
func (s *screen) work(lookup func(string) (string, bool), what string) (step func(string), end func()) {
	live, style := s.draws(lookup)
	every := workPulse
	if live {
		every = redraw
	}
	var current atomic.Value
	current.Store("")
	began, quit := time.Now(), make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				_ = s.draw("", nil)
				return
			case <-tick.C:
			}
			step, took := current.Load().(string), time.Since(began)
			if !live {
				_ = s.draw(liveview.StillAtWork(what, step, took)+"\n", nil)
				continue
			}
			_ = s.draw("", func(size liveview.Size) []string {
				return []string{liveview.Work(cmp.Or(step, what), took, size, style)}
			})
		}
	})
	return func(step string) { current.Store(step) }, func() { close(quit); showing.Wait() }
}

// draw writes whole lines, and redraws the live view with the lines that frame returns for the current size
// of the terminal. If frame is nil, it removes the view.
func (s *screen) draw(said string, frame func(liveview.Size) []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, own := s.size(), ownSequences(s.out)
	var lines []string
	if frame != nil {
		lines = frame(size)
	}
	for i := range lines {
		lines[i] = text.PlainText(lines[i], own...)
	}
	said = text.PlainText(said, own...)
	if len(lines) == 0 && len(s.partial) > 0 {
		said = string(s.partial) + "\n" + said
		s.partial = nil
	}
	return s.drawLocked(said, lines, size)
}

func (s *screen) drawLocked(text string, lines []string, size liveview.Size) error {
	s.lines = lines
	_, err := io.WriteString(s.out, s.view.Draw(text, lines, size.Columns))
	return err
}

// size returns the current size of the terminal, or 80 × 24 if it is unknown.
func (s *screen) size() liveview.Size {
	usual := liveview.Size{Columns: 80, Rows: 24}
	fd, ok := terminalOf(s.out)
	if !ok {
		return usual
	}
	columns, rows, err := term.GetSize(fd)
	if err != nil || columns == 0 || rows == 0 {
		return usual
	}
	return liveview.Size{Columns: columns, Rows: rows}
}

// lineWriter prints each line written to it, redacted and with a prefix.
type lineWriter struct {
	out     io.Writer
	prefix  string
	secrets *secret.Set
	partial []byte
}

// maxLine is the length in bytes at which an unfinished line is broken.
const maxLine = 4 << 10

func (w *lineWriter) Write(b []byte) (int, error) {
	w.partial = append(w.partial, b...)
	for {
		end := bytes.IndexByte(w.partial, '\n')
		if end < 0 && len(w.partial) < maxLine {
			return len(b), nil
		}
		if end < 0 {
			end = maxLine - 1
		}
		line := strings.ToValidUTF8(w.secrets.String(string(w.partial[:end])), "\uFFFD")
		w.partial = w.partial[end+1:]
		if _, err := io.WriteString(w.out, w.prefix+text.Inert(line)+"\n"); err != nil {
			return 0, err
		}
	}
}
