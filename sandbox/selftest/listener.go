package selftest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// hearTimeout bounds waiting for an arrival, also on an emulated machine.
const hearTimeout = 10 * time.Second

// listener is a listener of package probe, with what arrived there.
type listener struct {
	process process.Process
	place   probe.Place
	reading sync.WaitGroup

	mu       sync.Mutex
	arrivals []probe.Arrival // guarded by mu
	heard    chan struct{}   // closed and replaced at each arrival; guarded by mu
}

// startListener starts a listener, with a planted secret in its environment, and returns once it
// listens.
func (b *testbed) startListener(ctx context.Context, start starter, where string) (*listener, error) {
	spec := program(probe.Watch, b.foreign())
	spec.Env = []string{"PLANTED=" + b.secret() + "-" + where}
	running, err := start(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("listener (%s): %w", where, err)
	}
	p := &listener{process: running, heard: make(chan struct{})}
	var complaint bytes.Buffer
	p.reading.Go(func() { _, _ = io.Copy(&complaint, running.Stderr()) })
	lines := json.NewDecoder(running.Stdout())
	if err := lines.Decode(&p.place); err != nil {
		p.end()
		return nil, fmt.Errorf("listener (%s): %w: %s", where, err, strings.TrimSpace(complaint.String()))
	}
	p.reading.Go(func() {
		for {
			var a probe.Arrival
			if lines.Decode(&a) != nil {
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

// end ends the listener and waits for it.
func (l *listener) end() {
	if l == nil {
		return
	}
	_ = l.process.Stdin().Close()
	_ = l.process.Signal(process.Kill)
	l.reading.Wait()
	_, _ = l.process.Wait()
}

// await waits for an arrival that matches. It reports whether there is one in time.
func (l *listener) await(ctx context.Context, match func(probe.Arrival) bool) bool {
	late := time.After(hearTimeout)
	for {
		l.mu.Lock()
		again := l.heard
		found := l.findLocked(match)
		l.mu.Unlock()
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

// find returns the first arrival that matches, or nil. A nil listener has none.
func (l *listener) find(match func(probe.Arrival) bool) *probe.Arrival {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.findLocked(match)
}

func (l *listener) findLocked(match func(probe.Arrival) bool) *probe.Arrival {
	for _, a := range l.arrivals {
		if match(a) {
			return &a
		}
	}
	return nil
}

// plant puts a secret into the other trial's workspace and into its server.
func (b *testbed) plant(ctx context.Context) error {
	content := []byte(b.secret() + "-workspace\n")
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
	return b.otherTrial.Put(ctx, sandbox.Agent, sandbox.WorkspaceDir, &buf)
}

// reachability says over which networks, such as tcp4, the host's listener can be reached from
// the host's network.
type reachability map[string]bool

// checkListener has the host probe send to the host's listener, and waits for the arrivals. They
// show that the listener can be reached and, after the attacks, that it has reported everything
// that arrived before.
func (b *testbed) checkListener(ctx context.Context, when string) error {
	if b.host == nil {
		return nil
	}
	aims := probe.Aims{Nonce: b.nonce + "." + when, Host: b.host.place}
	ended, err := runProgram(ctx, b.hostProbe.Start, probe.Knock, aims, func(*json.Decoder) error { return nil })
	if err != nil || !ended {
		return errors.Join(err, ctx.Err())
	}
	b.reachable = reachability{}
	for _, over := range []string{"tcp4", "udp4", "tcp6"} {
		b.reachable[over] = b.host.await(ctx, func(a probe.Arrival) bool {
			return a.Nonce == aims.Nonce && a.Attack == probe.Control && a.Over == over
		})
		if over == "udp4" && !b.reachable["tcp4"] && !b.reachable[over] {
			return nil
		}
	}
	return nil
}

// runProgram runs a program of package probe and passes its output to read. It reports whether the
// program ran to its end, since its container may have ended before.
func runProgram(ctx context.Context, start starter, name string, aims probe.Aims, read func(*json.Decoder) error) (ended bool, err error) {
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
	var stdout, stderr bytes.Buffer
	exit, err := process.Communicate(p, input, &stdout, &stderr).Wait()
	readErr := read(json.NewDecoder(&stdout))
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
