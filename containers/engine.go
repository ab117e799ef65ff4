// Package containers is the Docker backend. It gives every trial a task network and a container
// for the agent and for each server, and removes all of it afterwards.
//
// Decisions are made in pure code (plan.go) and then carried out (apply.go). Only this package uses
// the engine.
package containers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/runner/plan"
)

var (
	// errNoEngine means that no Docker engine was found.
	errNoEngine = errors.New("no Docker engine answers")
	// errEngineSilent means that a Docker engine does not answer in time. A stopped engine
	// would refuse the connection immediately.
	errEngineSilent = errors.New("the Docker engine is busy or stuck")
)

const (
	// minAPI is the API of Engine 20.10. Older engines lack options that isolation requires.
	minAPI = "1.41"
	// dialTimeout bounds the first request. A busy engine may need tens of seconds.
	dialTimeout = time.Minute
	// askTimeout bounds requests that an engine answers immediately unless it is busy.
	askTimeout = 30 * time.Second
	// createTimeout bounds requests that create an object.
	createTimeout = 30 * time.Second
	// cleanupTimeout bounds removing the objects of a trial or run.
	cleanupTimeout = 60 * time.Second
	// networksAtOnce is how many requests about networks are sent concurrently, to keep the
	// engine busy.
	networksAtOnce = 2
)

// engine is the connection to one Docker engine.
type engine struct {
	*client.Client
	info  system.Info
	asked time.Time // when info was read
	// networking is a semaphore for requests that create or remove networks. The engine
	// processes them one at a time; more requests would time out in its queue.
	networking chan struct{}
}

// dialEngine connects to the engine that the docker command would use.
func dialEngine(ctx context.Context) (*engine, error) {
	options := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host := engineHost(); host != "" {
		options = append(options, client.WithHost(host))
	}
	c, err := client.NewClientWithOpts(options...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; correct DOCKER_HOST, DOCKER_CERT_PATH or the context of the docker command", errNoEngine, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	info, err := c.Info(ctx)
	switch api := c.ClientVersion(); {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("%w: no answer from %s within %s; try again when the machine has less to do, or restart Docker", errEngineSilent, c.DaemonHost(), dialTimeout)
	case err != nil:
		cause := ""
		if !strings.Contains(err.Error(), "Is the docker daemon running?") { // the message adds nothing
			cause = " (" + err.Error() + ")"
		}
		err = fmt.Errorf("%w at %s%s; start Docker, or set DOCKER_HOST to the address of an engine", errNoEngine, c.DaemonHost(), cause)
	case olderAPI(api, minAPI):
		err = fmt.Errorf("the engine (Docker %s) speaks API %s; isolation needs %s (Engine 20.10) or later", info.ServerVersion, api, minAPI)
	case info.OSType != "linux":
		err = fmt.Errorf("the Docker engine runs %s containers; isolation needs Linux ones", info.OSType)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &engine{Client: c, info: info, asked: time.Now(), networking: make(chan struct{}, networksAtOnce)}, nil
}

func olderAPI(have, want string) bool {
	var h, w [2]int
	if _, err := fmt.Sscanf(have, "%d.%d", &h[0], &h[1]); err != nil {
		return true
	}
	_, _ = fmt.Sscanf(want, "%d.%d", &w[0], &w[1])
	return h[0] < w[0] || h[0] == w[0] && h[1] < w[1]
}

// now returns the engine's current time. Ages that the engine reports are relative to it;
// clocks of other machines may be minutes off, and ours may jump.
func (e *engine) now() time.Time {
	at, err := time.Parse(time.RFC3339Nano, e.info.SystemTime)
	if err != nil {
		return time.Now()
	}
	return at.Add(time.Since(e.asked))
}

// arch returns the engine's architecture as a GOARCH.
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

// limits returns which limits the engine can enforce.
func (e *engine) limits() map[string]bool {
	return map[string]bool{
		"the memory":              e.info.MemoryLimit,
		"the swap":                e.info.SwapLimit,
		"the CPU time":            e.info.CPUCfsQuota,
		"the number of processes": e.info.PidsLimit,
		// cgroup v1 accounts it separately, and the engine sets no limit for that. A connection
		// has a receive and a send buffer in each direction; see tcpBuffers.
		"the memory of TCP connections (up to 576 KiB each)": e.info.CgroupVersion == "2",
	}
}

// checkPlatforms returns an error for platforms that the engine could only emulate.
// linux/arm64/v8 is the same as linux/arm64.
func (e *engine) checkPlatforms(trials []*plan.Trial) error {
	own := e.info.OSType + "/" + e.arch()
	for _, t := range trials {
		for _, s := range t.Servers {
			wanted := strings.TrimSuffix(strings.ToLower(s.Platform), "/v8")
			if wanted != "" && wanted != own {
				return fmt.Errorf("server %q wants the platform %s and the engine's is %s; remove the platform, or use an engine of that kind", s.Name, s.Platform, own)
			}
		}
	}
	return nil
}

// answers returns nil if the engine answers.
func (e *engine) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := e.Ping(ctx)
	return err
}

// engineHost returns the address of the engine as the docker command determines it:
// DOCKER_HOST, else the endpoint of the current context (used by Docker Desktop, colima and
// rootless engines), else "" for the default socket.
func engineHost() string {
	if host := os.Getenv(client.EnvOverrideHost); host != "" {
		return host
	}
	dir := dockerConfigDir()
	if dir == "" {
		return ""
	}
	return contextHost(dir, os.Getenv("DOCKER_CONTEXT"))
}

// dockerConfigDir returns the directory of the docker command's configuration, or "".
func dockerConfigDir() string {
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

// contextHost returns the endpoint of the context called name, or of the current one, from the
// docker command's configuration. Unreadable files are ignored.
func contextHost(dir, name string) string {
	if name == "" {
		var config struct {
			CurrentContext string `json:"currentContext"`
		}
		readInto(filepath.Join(dir, "config.json"), &config)
		name = config.CurrentContext
	}
	if name == "" || name == "default" {
		return ""
	}
	// A context's directory is named after the digest of its name.
	sum := sha256.Sum256([]byte(name))
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	readInto(filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json"), &meta)
	return meta.Endpoints["docker"].Host
}

func readInto(path string, v any) {
	if data, err := files.Read(path, 1<<20); err == nil {
		_ = json.Unmarshal(data, v)
	}
}
