package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/liveview"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/runner"
)

// loudness is how much a run says while it is at work.
type loudness int

const (
	quiet  loudness = iota - 1 // what did not pass
	normal                     // and on a terminal what is at work, elsewhere each trial that ended
	loud                       // and each trial that ended everywhere
)

// progress shows trials while they run: on a terminal as a view of what is at work,
// elsewhere a line when a trial has ended, or when none has for a while. Whoever tells of
// a trial does not wait for the terminal.
type progress struct {
	screen   *screen
	live     bool
	loudness loudness
	style    terminal.Style
	running  context.Context // ends with an interrupt

	wake  chan struct{}
	quit  chan struct{}
	ended sync.WaitGroup
	once  sync.Once

	mu    sync.Mutex
	state *liveview.State // guarded by mu
	text  strings.Builder // lines that are to be written; guarded by mu
}

const (
	redraw = 200 * time.Millisecond
	// pulse is how long nothing is said where there is no terminal.
	pulse = time.Minute
)

// newProgress shows the progress of total trials, at most workers at once, until it is
// closed.
func newProgress(ctx context.Context, s *screen, lookup func(string) (string, bool), l loudness, total, workers int) *progress {
	_, isTerminal := terminalOf(s.out)
	kind, _ := lookup("TERM")
	p := &progress{
		screen: s, live: isTerminal && kind != "dumb" && l != quiet, loudness: l, style: terminal.StyleFor(isTerminal, lookup), running: ctx,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), state: liveview.New(total, workers, time.Now()),
	}
	p.ended.Go(p.show)
	return p
}

// show writes what there is to say until the progress is closed.
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
			_ = p.screen.draw(p.said(), nil)
			return
		case <-p.wake:
			p.write(p.said())
			if !p.live {
				tick.Reset(every)
			}
		case <-tick.C:
			p.write(p.said() + p.pulse())
		}
	}
}

// write says something, and draws the view anew where there is one.
func (p *progress) write(text string) {
	var lines []string
	if p.live {
		size := p.screen.size()
		p.mu.Lock()
		p.state.Stopping = p.running.Err() != nil
		lines = p.state.Frame(time.Now(), size, p.style)
		p.mu.Unlock()
	}
	if text != "" || p.live {
		_ = p.screen.draw(text, lines)
	}
}

// said is what waits to be written.
func (p *progress) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.text.String()
	p.text.Reset()
	return text
}

// pulse is what to say where nothing has been said for long, and nothing is seen.
func (p *progress) pulse() string {
	if p.live || p.loudness == quiet {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Stopping = p.running.Err() != nil
	return p.state.Pulse(time.Now()) + "\n"
}

// close removes the view. It may be called twice.
func (p *progress) close() {
	p.once.Do(func() {
		close(p.quit)
		p.ended.Wait()
	})
}

// update takes what the runner tells.
func (p *progress) update(u runner.Update) {
	if u.Result != nil {
		result := *u.Result
		result.Verdicts = ended(result).Outcome()
		u.Result = &result
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Update(u, time.Now())
	if u.Result == nil || !p.tells(u.Result.Verdicts.Class) {
		return
	}
	p.text.WriteString(liveview.Ended(u, p.style) + "\n")
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// tells says whether the end of an attempt is to be said.
func (p *progress) tells(class evidence.Class) bool {
	return class != evidence.ClassPass || p.loudness == loud || !p.live && p.loudness == normal
}
