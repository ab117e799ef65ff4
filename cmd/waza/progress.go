package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/redact"
)

// progress shows trials while they run: on a terminal a line for each at work,
// redrawn, and one for the total; elsewhere a plain line when a trial has ended.
type progress struct {
	out   io.Writer
	live  bool
	total int
	tick  *time.Ticker
	quit  chan struct{}
	ended sync.WaitGroup
	once  sync.Once

	mu      sync.Mutex
	working []working // guarded by mu
	done    int       // guarded by mu
	drawn   int       // lines on the screen to draw over; guarded by mu
	started time.Time
}

type working struct {
	trial string
	phase runner.Phase
	since time.Time
}

const redraw = 200 * time.Millisecond

func newProgress(out io.Writer, lookup func(string) (string, bool), total int) *progress {
	p := &progress{out: out, total: total, started: time.Now(), quit: make(chan struct{})}
	term, _ := lookup("TERM")
	_, isTerminal := terminal(out)
	p.live = isTerminal && term != "dumb"
	if p.live {
		p.tick = time.NewTicker(redraw)
		p.ended.Go(p.redraw)
	}
	return p
}

func (p *progress) redraw() {
	for {
		select {
		case <-p.quit:
			return
		case <-p.tick.C:
			p.mu.Lock()
			p.drawLocked()
			p.mu.Unlock()
		}
	}
}

// close removes the live lines. It may be called twice.
func (p *progress) close() {
	p.once.Do(func() {
		close(p.quit)
		p.ended.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.eraseLocked()
		p.live = false
	})
}

func (p *progress) update(u runner.Update) {
	p.mu.Lock()
	defer p.mu.Unlock()
	trial := fmt.Sprintf("%s/%d", u.Task, u.Number)
	i := slices.IndexFunc(p.working, func(w working) bool { return w.trial == trial })
	switch {
	case u.Phase == runner.PhaseDone:
		if i >= 0 {
			p.working = slices.Delete(p.working, i, i+1)
		}
		p.done++
		p.printLocked(doneLine(trial, u.Result))
	case u.Phase == runner.PhaseAgain:
		if i >= 0 {
			p.working = slices.Delete(p.working, i, i+1)
		}
		p.printLocked(doneLine(trial, u.Result) + "; once more")
	case i >= 0:
		p.working[i].phase = u.Phase
	default:
		p.working = append(p.working, working{trial, u.Phase, time.Now()})
	}
	p.drawLocked()
}

func doneLine(trial string, r *runner.Result) string {
	line := fmt.Sprintf("%-11s %s  %.1fs", r.Verdicts.Class.With(r.Verdicts.Reason), trial, r.Trial.Ended.Sub(r.Trial.Started).Seconds())
	first, _, _ := strings.Cut(r.Verdicts.Message, "\n")
	if first != "" {
		line += "  " + printable(first)
	}
	return line
}

// printLocked prints lines that stay.
func (p *progress) printLocked(text string) {
	p.eraseLocked()
	fmt.Fprintln(p.out, text)
}

func (p *progress) eraseLocked() {
	if p.drawn > 0 {
		fmt.Fprintf(p.out, "\x1b[%dA\x1b[J", p.drawn)
		p.drawn = 0
	}
}

func (p *progress) drawLocked() {
	if !p.live {
		return
	}
	columns := max(width(p.out), 20)
	var frame strings.Builder
	lines := 0
	for _, w := range p.working {
		frame.WriteString(fit(fmt.Sprintf("  %s  %s  %.0fs", w.trial, w.phase, time.Since(w.since).Seconds()), columns) + "\n")
		lines++
	}
	frame.WriteString(fit(fmt.Sprintf("%d of %d trials done, %.0fs", p.done, p.total, time.Since(p.started).Seconds()), columns) + "\n")
	p.eraseLocked()
	_, _ = io.WriteString(p.out, frame.String())
	p.drawn = lines + 1
}

func fit(line string, columns int) string {
	runes := []rune(line)
	if len(runes) < columns {
		return line
	}
	return string(runes[:columns-2]) + "…"
}

// prefixed is a writer that shows each line of what is written to it, redacted,
// after prefix.
func (p *progress) prefixed(prefix string, secrets *redact.Set) io.Writer {
	return &lineWriter{progress: p, prefix: prefix, secrets: secrets}
}

type lineWriter struct {
	progress *progress
	prefix   string
	secrets  *redact.Set
	held     []byte
}

// maxLine is where a line without end is broken.
const maxLine = 4 << 10

func (w *lineWriter) Write(b []byte) (int, error) {
	w.held = append(w.held, b...)
	for {
		end := bytes.IndexByte(w.held, '\n')
		if end < 0 && len(w.held) < maxLine {
			return len(b), nil
		}
		if end < 0 {
			end = maxLine - 1
		}
		line := strings.ToValidUTF8(w.secrets.String(string(w.held[:end])), "\uFFFD")
		w.held = w.held[end+1:]
		w.progress.mu.Lock()
		w.progress.printLocked(w.prefix + printable(line))
		w.progress.drawLocked()
		w.progress.mu.Unlock()
	}
}
