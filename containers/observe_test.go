package containers

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// TestServersAreObserved runs a server that does everything an observation records, and
// tries to hide it, next to one that does nothing.
func TestServersAreObserved(t *testing.T) {
	b := openBackend(t)
	trial := attackedTrial(b.run, "observed", sandbox.NetworkAirtight)
	addServer(trial, "calm", trial.Container("victim").Container)
	trial.Container("victim").NestedSandboxes = true // or it could not try to silence the guest's filter
	s := openSandbox(t, b, trial, func(evidence.Event) {})
	stray := program(t, "stray")
	for _, ctr := range []string{"victim", "calm"} {
		if err := s.Put(t.Context(), ctr, "/tmp", bytes.NewReader(stray)); err != nil {
			t.Fatal(err)
		}
	}
	for _, act := range [][]string{
		{"connect"}, {"write", sandbox.HomeDir}, {"start"}, {"silence"}, {"hide"}, {"memory"}, {"storm", "300", "20"},
	} {
		runStray(t, s, "victim", act...)
	}
	runStray(t, s, "calm", "nothing")

	seen, err := s.Observe(t.Context(), "victim")
	if err != nil {
		t.Fatal(err)
	}
	compareSeen(t, seen)
	calm, err := s.Observe(t.Context(), "calm")
	if err != nil {
		t.Fatal(err)
	}
	want := observe.Seen{
		Programs: []observe.Program{{Path: "/tmp/stray", Args: []string{"/tmp/stray", "nothing"}, Count: 1}},
		More:     map[string]int{}, Unseen: map[string]string{},
	}
	if diff := cmp.Diff(want, calm); diff != "" {
		t.Errorf("the calm server: -want +got\n%s", diff)
	}
}

func runStray(t *testing.T, s *trialSandbox, ctr string, act ...string) {
	t.Helper()
	p, err := s.Start(t.Context(), ctr, process.Spec{Args: append([]string{"/tmp/stray"}, act...)})
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Stdin().Close()
	go func() { _, _ = io.Copy(io.Discard, p.Stderr()) }()
	said, _ := io.ReadAll(p.Stdout())
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("%s: %+v, %v: %s", act, exit, err, said)
	}
}

func compareSeen(t *testing.T, seen observe.Seen) {
	t.Helper()
	files := map[string]string{}
	for _, f := range seen.Files {
		files[f.Path] = f.What + " " + f.Kind
	}
	wantFiles := map[string]string{
		"/dev/shm/left": "created file", "/tmp/two\nlines": "created file", "/tmp/root": "created link",
		"/tmp/closed": "created directory", "/tmp/unreadable": "created file", sandbox.HomeDir + "/.profile": "created file",
	}
	if diff := cmp.Diff(wantFiles, files); diff != "" {
		t.Errorf("files: -want +got\n%s", diff)
	}
	if why := seen.Unseen[observe.Files]; !strings.Contains(why, "/tmp/closed") || len(seen.Unseen) != 1 {
		t.Errorf("unseen: %q", seen.Unseen)
	}

	places, connections := map[string]int{}, seen.More[observe.Connections]
	for _, c := range seen.Connections {
		places[c.Network+" "+c.Address] = c.Count
		connections += c.Count
	}
	for place, count := range map[string]int{
		"ip 192.0.2.1:80": 2, "ip 169.254.169.254:80": 1, "unix /run/nobody.sock": 1,
		"ip 192.0.2.77:7":               1, // after it tried to silence its guest
		"unknown hidden by its program": 4,
	} {
		if places[place] != count {
			t.Errorf("%s: %d times, want %d", place, places[place], count)
		}
	}
	if connections != 308 || len(seen.Connections) != observe.MaxConnections {
		t.Errorf("%d connections in %d lines, want 308 in %d: %v", connections, len(seen.Connections), observe.MaxConnections, slices.Sorted(maps.Keys(places)))
	}

	programs := map[string]int{}
	for _, p := range seen.Programs {
		programs[p.Path] = p.Count
	}
	wantPrograms := map[string]int{"/tmp/stray": 7 + 3 + 20, "/tmp/unreadable": 1, "/memfd:nowhere (deleted)": 1, "hidden by its program": 1}
	if diff := cmp.Diff(wantPrograms, programs); diff != "" {
		t.Errorf("programs: -want +got\n%s", diff)
	}
}
