package containers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/sandbox"
)

// facts are what an examination finds out about an engine. They are evaluated by assess.
type facts struct {
	found    string // which setting names the engine
	host     string // address
	info     system.Info
	api      string
	skew     time.Duration // how far the engine's clock is ahead of ours
	answered time.Duration // duration of the request, which limits the accuracy of skew
	free     int           // free subnets for task networks
	subnets  int           // all subnets
	room     int64         // free bytes where the engine stores its data; -1 if not known
	guest    string        // why our executable cannot be process 1, or ""
	guests   []image.Summary
	own      string // reference of our guest image
	present  []string
	missing  []string // base images of packages
	dangling int
	live     int // live runs
	dead     int // dead runs with leftovers
	objects  int // leftovers of dead runs
}

// Examine checks the engine that a run would use. If there is none, the only check reports
// that. It changes nothing on the engine.
func Examine(ctx context.Context) sandbox.Checks {
	var none sandbox.Checks
	at := findEngine()
	e, err := dialEngine(ctx)
	switch {
	case errors.Is(err, errNoEngine):
		mend := "Start Docker (on Debian as root: make setup), or point DOCKER_HOST at an engine; or run without --isolate, which isolates nothing."
		if found := podmanSocket(); found != "" {
			mend += " " + found + " is Podman's, which waza does not support."
		}
		none.Fail("engine", fmt.Sprintf("none answers at %s, found %s", at.host, at.how),
			mend)
		return none
	case errors.Is(err, errEngineClosed):
		none.Fail("engine", fmt.Sprintf("you may not connect to the one at %s, found %s", at.host, at.how), "H"+joinGroup[1:]+".")
		return none
	case errors.Is(err, errEngineSilent):
		none.Fail("engine", fmt.Sprintf("the one at %s, found %s, is busy or stuck: no answer within %s", at.host, at.how, dialTimeout),
			"Try again when the machine has less to do, or restart Docker.")
		return none
	case err != nil:
		none.Fail("engine", text.FirstLine(err.Error()), "Point DOCKER_HOST or the docker command's context at a Docker engine that is 20.10 or later and runs Linux containers.")
		return none
	}
	defer func() { _ = e.Close() }()
	f := facts{found: at.how}
	if err := f.examine(ctx, e); err != nil {
		none.Fail("engine", "it answers some questions and not others: "+text.FirstLine(err.Error()), "See the engine's own log.")
		return none
	}
	return assess(f)
}

// examine queries the engine.
func (f *facts) examine(ctx context.Context, e *engine) error {
	f.host, f.info, f.api = e.DaemonHost(), e.info, e.ClientVersion()
	asked := time.Now()
	answer, err := e.Info(ctx, client.InfoOptions{})
	if err != nil {
		return err
	}
	f.answered = time.Since(asked)
	if at, err := time.Parse(time.RFC3339Nano, answer.Info.SystemTime); err == nil {
		f.skew = at.Sub(asked.Add(f.answered / 2))
	}
	f.room = -1
	if free, ok := files.FreeSpace(answer.Info.DockerRootDir); ok && strings.HasPrefix(f.host, "unix:") {
		f.room = free
	}
	return errors.Join(f.examineNetworks(ctx, e), f.examineImages(ctx, e), f.examineRuns(ctx, sweeper{e}))
}

func (f *facts) examineNetworks(ctx context.Context, e *engine) error {
	all, err := e.NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		return err
	}
	var used []netip.Prefix
	for _, n := range all.Items {
		for _, config := range n.IPAM.Config {
			if config.Subnet.IsValid() {
				used = append(used, config.Subnet)
			}
		}
	}
	from, err := parseRange("")
	if err != nil {
		return err
	}
	f.free, f.subnets = freeSubnets(from, used)
	return nil
}

// freeSubnets returns how many subnets of a range do not overlap with used ones, and how many
// there are in total.
func freeSubnets(from netip.Prefix, used []netip.Prefix) (free, all int) {
	all = 1 << (taskBits - from.Bits())
	for n := range all {
		subnet := nthSubnet(from, uint32(n))
		if !slices.ContainsFunc(used, subnet.Overlaps) {
			free++
		}
	}
	return free, all
}

func (f *facts) examineImages(ctx context.Context, e *engine) error {
	own, err := guestProgram(e.arch(), files.Digest)
	if err == nil {
		f.own = guestReference(own.sum)
	}
	if err != nil {
		f.guest = text.FirstLine(err.Error())
	}
	if f.guests, err = (sweeper{e}).guestImages(ctx); err != nil {
		return err
	}
	for _, ref := range []string{images.DefaultNPM, images.DefaultPyPI} {
		if _, err := e.inspectImage(ctx, ref); err == nil {
			f.present = append(f.present, ref)
		} else {
			f.missing = append(f.missing, ref)
		}
	}
	dangling, err := e.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("dangling", "true")})
	f.dangling = len(dangling.Items)
	return err
}

func (f *facts) examineRuns(ctx context.Context, s sweeper) error {
	all, err := s.find(ctx, allRuns())
	if err != nil {
		return err
	}
	live, err := s.liveRuns(ctx)
	if err != nil {
		return err
	}
	f.live = len(live)
	dead := map[string]bool{}
	for _, labels := range all.labels() {
		if run := labels[labelRun]; !live[run] {
			dead[run] = true
			f.objects++
		}
	}
	f.dead = len(dead)
	return nil
}

// Absent returns which images the engine does not have. It fails if no engine answers. An image
// whose inspection fails for another reason does not count as absent.
func Absent(ctx context.Context, refs []string) (absent []string, err error) {
	e, err := dialEngine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = e.Close() }()
	for _, ref := range refs {
		if _, err := e.ImageInspect(ctx, ref); errdefs.IsNotFound(err) {
			absent = append(absent, ref)
		}
	}
	return absent, nil
}
