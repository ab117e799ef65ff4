package selftest

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	maxLine     = 16 << 10
	maxLines    = 4096    // of one program of ours
	maxOutput   = 4 << 20 // bytes of one program of ours
	maxSaid     = 4 << 10
	hearTimeout = 2 * time.Second
)

// post is a listener and what it heard.
type post struct {
	process process.Process
	place   probe.Place
	reading sync.WaitGroup

	mu       sync.Mutex
	arrivals []probe.Arrival // guarded by mu
	heard    chan struct{}   // closed and made anew at each arrival; guarded by mu
}

// watch starts a listener, which holds a planted secret, and returns once it
// listens.
func (g *ground) watch(ctx context.Context, start starter, where string) (*post, error) {
	spec := program(probe.Watch, g.foreign())
	spec.Env = []string{"PLANTED=" + g.secret() + "-" + where}
	running, err := start(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("listener (%s): %w", where, err)
	}
	p := &post{process: running, heard: make(chan struct{})}
	complaint := p.collectStderr()
	lines := newLines(running.Stdout())
	if err := lines.next(&p.place); err != nil {
		p.end()
		return nil, fmt.Errorf("listener (%s): %w: %s", where, err, complaint())
	}
	p.reading.Go(func() {
		for {
			var a probe.Arrival
			if lines.next(&a) != nil {
				_, _ = io.Copy(io.Discard, running.Stdout())
				return
			}
			p.mu.Lock()
			p.arrivals = append(p.arrivals, a)
			close(p.heard)
			p.heard = make(chan struct{})
			p.mu.Unlock()
		}
	})
	return p, nil
}

// collectStderr reads it to its end and returns what gives the beginning.
func (p *post) collectStderr() func() string {
	said := make(chan string, 1)
	p.reading.Go(func() { said <- beginning(p.process.Stderr()) })
	return func() string { return <-said }
}

// beginning reads r to its end and returns its beginning.
func beginning(r io.Reader) string {
	first := &bounded.Head{Limit: maxSaid}
	_, _ = io.Copy(first, r)
	return strings.TrimSpace(first.String())
}

// end ends the listener and waits for it.
func (p *post) end() {
	if p == nil {
		return
	}
	_ = p.process.Stdin().Close()
	_ = p.process.Signal(process.Kill)
	p.reading.Wait()
	_, _ = p.process.Wait()
}

// await waits until an arrival matches, as long as one may be on its way.
func (p *post) await(ctx context.Context, match func(probe.Arrival) bool) bool {
	late := time.After(hearTimeout)
	for {
		p.mu.Lock()
		again := p.heard
		found := p.findLocked(match)
		p.mu.Unlock()
		if found != nil {
			return true
		}
		select {
		case <-again:
		case <-late:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// find is the first arrival that matches, or nil; also of a post that is none.
func (p *post) find(match func(probe.Arrival) bool) *probe.Arrival {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.findLocked(match)
}

func (p *post) findLocked(match func(probe.Arrival) bool) *probe.Arrival {
	for _, a := range p.arrivals {
		if match(a) {
			return &a
		}
	}
	return nil
}

// lines are the JSON lines of a program, bounded in length and number.
type lines struct {
	scanner *bufio.Scanner
	read    int
}

func newLines(r io.Reader) *lines {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	return &lines{scanner: s}
}

func (l *lines) next(into any) error {
	if l.read++; l.read > maxLines {
		return errors.New("it says too much")
	}
	if !l.scanner.Scan() {
		if err := l.scanner.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	return json.Unmarshal(l.scanner.Bytes(), into)
}

// plant puts a secret into the other trial's workspace and into its server.
func (g *ground) plant(ctx context.Context) error {
	content := []byte(g.secret() + "-workspace\n")
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "secret.txt", Mode: 0o600, Size: int64(len(content))}); err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return g.other.Put(ctx, sandbox.Agent, sandbox.WorkspaceDir, &buf)
}

// controls is whether the host's listener heard who stands beside it, by transport
// and address.
type controls map[string]bool

// knock has the host probe reach for the host's listener, and waits for it to be heard:
// that shows that the listener hears, and, after the attacks, that it has heard
// whatever came before.
func (g *ground) knock(ctx context.Context, when string) error {
	if g.host == nil {
		return nil
	}
	aims := probe.Aims{Nonce: g.nonce + "." + when, Host: g.host.place}
	ended, err := runProgram(ctx, g.hostProbe.Start, probe.Knock, aims, func(*lines) error { return nil })
	if err != nil || !ended {
		return errors.Join(err, ctx.Err())
	}
	g.heard = controls{}
	for _, over := range []string{"tcp4", "udp4", "tcp6"} {
		g.heard[over] = g.host.await(ctx, func(a probe.Arrival) bool {
			return a.Nonce == aims.Nonce && a.Attack == probe.Control && a.Over == over
		})
		if over == "udp4" && !g.heard["tcp4"] && !g.heard[over] {
			return nil
		}
	}
	return nil
}

// runProgram runs one of the probe's programs, has read take what it wrote, and reports whether
// it came to its end: its container may be gone.
func runProgram(ctx context.Context, start starter, name string, aims probe.Aims, read func(*lines) error) (ended bool, err error) {
	input, err := json.Marshal(aims)
	if err != nil {
		return false, err
	}
	p, err := start(ctx, program(name))
	if err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Signal(process.Kill) })
	defer stop()
	stdout, stderr := &bounded.Head{Limit: maxOutput}, &bounded.Head{Limit: maxSaid}
	exit, err := process.Attend(p, input, stdout, stderr).Wait()
	readErr := read(newLines(bytes.NewReader(stdout.Bytes())))
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		return false, nil
	case exit.Code != 0:
		return false, fmt.Errorf("waza probe %s: exit code %d %s: %s", name, exit.Code, exit.Signal, strings.TrimSpace(stderr.String()))
	}
	return true, readErr
}
