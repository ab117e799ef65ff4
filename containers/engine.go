// Package containers is the Docker backend: it gives every trial a task network
// and a container for the agent and for each server, and takes all of it away.
//
// Decisions are made in pure code (plan.go) and then carried out (apply.go). It
// knows nothing of evals, MCP or grading, and no other package knows of the
// engine.
package containers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
)

var (
	// ErrNoEngine says that no Docker engine answers.
	ErrNoEngine = errors.New("no Docker engine answers")
	// ErrEngineSilent says that a Docker engine gives no answer in time. One that is there
	// and busy does so, a stopped one refuses at once.
	ErrEngineSilent = errors.New("the Docker engine is busy or stuck")
)

// minAPI is Engine 20.10's: older ones lack options that isolation rests on.
const minAPI = "1.41"

// dialTimeout bounds the first question. A busy engine may need tens of seconds.
const dialTimeout = time.Minute

// createTimeout bounds one call that creates something.
const createTimeout = 30 * time.Second

// engine is the connection to one Docker engine.
type engine struct {
	*client.Client
	info  system.Info
	asked time.Time // when info was true
	watch *watch    // of a run; else nil
	// networking has a place for each network that is made or removed at a time. The
	// engine takes them one by one; a call that stands in its queue would time out there.
	networking chan struct{}
}

// networksAtOnce keeps the engine busy while an answer is on its way.
const networksAtOnce = 2

// now is the time by the engine's clock, which is what it says of ages: clocks of
// other machines may be minutes off, and ours may jump.
func (e *engine) now() time.Time {
	told, err := time.Parse(time.RFC3339Nano, e.info.SystemTime)
	if err != nil {
		return time.Now()
	}
	return told.Add(time.Since(e.asked))
}

// dialEngine connects as the docker command would.
func dialEngine(ctx context.Context) (*engine, error) {
	options := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host := engineHost(); host != "" {
		options = append(options, client.WithHost(host))
	}
	c, err := client.NewClientWithOpts(options...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	info, err := c.Info(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, errors.Join(fmt.Errorf("%w: no answer from %s within %s; try again when the machine has less to do, or restart Docker", ErrEngineSilent, c.DaemonHost(), dialTimeout), c.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w at %s: start Docker (on Debian as root: make setup) or point DOCKER_HOST at one: %w", ErrNoEngine, c.DaemonHost(), err), c.Close())
	}
	if api := c.ClientVersion(); olderAPI(api, minAPI) {
		return nil, errors.Join(fmt.Errorf("the engine (Docker %s) speaks API %s; isolation needs %s (Engine 20.10) or later", info.ServerVersion, api, minAPI), c.Close())
	}
	if info.OSType != "linux" {
		return nil, errors.Join(fmt.Errorf("the Docker engine runs %s containers; isolation needs Linux ones", info.OSType), c.Close())
	}
	return &engine{Client: c, info: info, asked: time.Now(), networking: make(chan struct{}, networksAtOnce)}, nil
}

// creating is the context of a call that creates something. The end of ctx does
// not cancel it: the engine would go on, and nobody would know what it made.
func creating(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
}

func olderAPI(have, want string) bool {
	var h, w [2]int
	if _, err := fmt.Sscanf(have, "%d.%d", &h[0], &h[1]); err != nil {
		return true
	}
	_, _ = fmt.Sscanf(want, "%d.%d", &w[0], &w[1])
	return h[0] < w[0] || h[0] == w[0] && h[1] < w[1]
}

// arch is the engine's architecture in Go's words.
func (e *engine) arch() string {
	switch e.info.Architecture {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	default:
		return e.info.Architecture
	}
}

// limits says which limits the engine can enforce.
func (e *engine) limits() map[string]bool {
	return map[string]bool{
		"the memory":              e.info.MemoryLimit,
		"the swap":                e.info.SwapLimit,
		"the CPU time":            e.info.CPUCfsQuota,
		"the number of processes": e.info.PidsLimit,
		// Control groups of version 1 count it apart, and the engine gives that no limit.
		"the memory of TCP connections (up to 128 KiB each)": e.info.CgroupVersion == "2",
	}
}
