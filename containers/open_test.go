package containers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
)

// An Open that fails returns the reason and leaves nothing of its trial, and the next one
// succeeds.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	crowded := crowd(t)
	tests := []struct {
		name   string
		change func(*sandbox.Spec)
		want   string
	}{
		{"image missing", func(t *sandbox.Spec) { t.Container("s0").Image = "waza-nobody.invalid/has:this" }, `image "waza-nobody.invalid/has:this" is not on the engine and cannot be pulled`},
		{"no such runtime", func(t *sandbox.Spec) { t.Runtime = "no-such-runtime" }, "no-such-runtime"},
		{"no free subnet", func(t *sandbox.Spec) { t.Subnets = crowded }, "no free subnet in " + crowded},
		{"bad subnets", func(t *sandbox.Spec) { t.Subnets = "nonsense" }, "task network"},
		{"root by another name", func(t *sandbox.Spec) { t.Container("s0").User = "00" }, "runs as root"},
		{"no such user", func(t *sandbox.Spec) { t.Container("s0").User = "nobody-of-this-name" }, "nobody-of-this-name"},
		{"service's user", func(t *sandbox.Spec) { withService(t, debian).Container("s0/db").User = "nobody-of-this-name" }, "nobody-of-this-name"},
		{"service as root", func(t *sandbox.Spec) { withService(t, debian).Container("s0/db").User = "00" }, "container of s0/db: runs as root"},
		{"too little memory for a service", func(t *sandbox.Spec) { withService(t, debian).Container("s0/db").Memory = 1 << 20 }, ""},
		{"too little memory to start", func(t *sandbox.Spec) { t.Container("s0").Memory = 1 << 20 }, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			trial := trialOf(b, sandbox.NetworkBridge, debian)
			useVolume(trial)
			test.change(trial)
			s, err := b.Open(within(t), trial, func(evidence.Event) {})
			if err == nil {
				t.Error("no error")
				_ = s.Close(context.Background())
			} else if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q, want %q", err, test.want)
			}
			noTrialObjects(t, b, trial)
		})
	}
	stand(t, b, trialOf(b, sandbox.NetworkBridge, debian))
}

// crowd returns a range of addresses that has no room left.
func crowd(t *testing.T) string {
	t.Helper()
	base := fmt.Sprintf("10.212.%d.", rand.IntN(256))
	foreignNetwork(t, base+"0/29")
	foreignNetwork(t, base+"8/29")
	return base + "0/28"
}

// foreignNetwork is a network of somebody else's, until the test ends.
func foreignNetwork(t *testing.T, subnet string) {
	t.Helper()
	engine := dockertest.Engine(t)
	name := strings.ToLower(t.Name()) + "-" + strings.NewReplacer(".", "-", "/", "-").Replace(subnet)
	made, err := engine.NetworkCreate(within(t), name, client.NetworkCreateOptions{
		Internal: true, IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: netip.MustParsePrefix(subnet)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := engine.NetworkRemove(context.Background(), made.ID, client.NetworkRemoveOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// However early an Open is cancelled, it leaves nothing. Each call that creates
// something is hit once, when the engine has the request and nobody has the
// answer.
func TestFaults_OpenCancelled(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	own := b.engine.Client
	defer func() { b.engine.Client = own }()
	for hit, done := 1, false; !done; hit++ {
		trial := withService(trialOf(b, sandbox.NetworkBridge, debian, ""), "")
		useVolume(trial)
		ctx, cancel := context.WithCancel(within(t))
		b.engine.Client = cancelling(t, hit, cancel)
		s, err := b.Open(ctx, trial, func(evidence.Event) {})
		switch {
		case err == nil:
			done = ctx.Err() == nil // there are no more calls to hit
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		case ctx.Err() == nil:
			t.Fatal(err)
		}
		cancel()
		noTrialObjects(t, b, trial)
		if done && hit < 8 { // network, volumes and containers of such a trial
			t.Errorf("the engine was asked to create only %d things", hit-1)
		}
	}
}

// cancelling is a client of the engine that calls cancel once it has sent the
// n-th request to create something.
func cancelling(t *testing.T, n int, cancel func()) *client.Client {
	t.Helper()
	dialer := dockertest.Engine(t).Dialer()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer(ctx) }}
	var creations atomic.Int32
	c, err := client.New(client.FromEnv, client.WithAPIVersion(minAPI), client.WithHTTPClient(&http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(r.URL.Path, "/create") || int(creations.Add(1)) != n {
				return transport.RoundTrip(r)
			}
			trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }}
			answer, err := transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
			if err != nil {
				t.Errorf("nobody waits for what %s makes: %v", r.URL.Path, err)
			}
			return answer, err
		}),
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Every object has its labels from the call that creates it. They are read from the engine's
// events or, for networks and volumes, whose labels never change, from the object once its
// event has arrived.
func TestLabelsFromCreation(t *testing.T) {
	engine := dockertest.Engine(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := engine.Events(ctx, client.EventsListOptions{Filters: client.Filters{}.Add("event", "create")})
	b := openRun(t)
	trial := trialOf(b, sandbox.NetworkBridge, debian)
	useVolume(trial)
	stand(t, b, trial)

	want := []string{
		"container agent task/1", "container aside -", "container lease -", "container server task/1",
		"network network task/1",
		"volume files -", "volume users -", "volume workspace task/1",
	}
	var got []string
	seen := map[string]bool{} // Engine 20.10 tells of a volume again when a container takes it
	for timer := time.After(timeout); len(got) < len(want); {
		select {
		case e := <-stream.Messages:
			if line := createdBy(t, b, e); line != "" && !seen[e.Actor.ID] && !seen[line] {
				seen[e.Actor.ID], seen[line] = true, true // the first run makes layers of images aside
				got = append(got, line)
			}
		case err := <-stream.Err:
			t.Fatal(err)
		case <-timer:
			t.Fatalf("the engine told of %q, want %q", got, want)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("created %q, want %q", got, want)
	}
}

// createdBy returns the type, role and trial of an object that the run of b created, or ""
// for any other object.
func createdBy(t *testing.T, b *Backend, e events.Message) string {
	t.Helper()
	labels := e.Actor.Attributes
	name := labels["name"]
	switch e.Type {
	case events.NetworkEventType:
		if !strings.Contains(name, b.run) {
			return ""
		}
		n, err := b.engine.NetworkInspect(t.Context(), e.Actor.ID, client.NetworkInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		labels = n.Network.Labels
	case events.VolumeEventType:
		v, err := b.engine.VolumeInspect(t.Context(), e.Actor.ID, client.VolumeInspectOptions{})
		if errdefs.IsNotFound(err) {
			return "" // another run's
		}
		if err != nil {
			t.Fatal(err)
		}
		labels = v.Volume.Labels
	case events.ContainerEventType:
		if labels[labelRun] == "" && strings.Contains(name, b.run) {
			t.Errorf("container %s was created without labels", name)
		}
	}
	if labels[labelRun] != b.run {
		return ""
	}
	return fmt.Sprintf("%s %s %s", e.Type, labels[labelRole], labels[labelTrial])
}
