// Package containers is the Docker backend. It gives every trial a task network and a container
// for the agent and for each server, and removes all of it afterwards.
//
// Decisions are made in pure code (plan.go) and then carried out (apply.go). Only this package uses
// the engine.
package containers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

var (
	// errNoEngine means that no Docker engine was found.
	errNoEngine = errors.New("no Docker engine answers")
	// errEngineClosed means that this user may not connect to a Docker engine.
	errEngineClosed = errors.New("you may not connect to the Docker engine")
	// errEngineSilent means that a Docker engine does not answer in time. A stopped engine
	// would refuse the connection immediately.
	errEngineSilent = errors.New("the Docker engine is busy or stuck")
)

// joinGroup is advice on how to get permission to connect to an engine.
const joinGroup = "have root run usermod -aG docker USER and log in again, or use a rootless engine of your own"

const (
	// minAPI is the API of Engine 20.10. Older engines lack options that isolation requires.
	minAPI = "1.41"
	// dialTimeout bounds the first request. A busy engine may need tens of seconds.
	dialTimeout = time.Minute
	// askTimeout bounds requests that an engine answers immediately unless it is busy.
	askTimeout = 30 * time.Second
	// createTimeout bounds requests that create an object. A busy engine may need tens of seconds.
	createTimeout = time.Minute
	// cleanupTimeout bounds removing the objects of a trial or run.
	cleanupTimeout = 60 * time.Second
	// networksAtOnce is how many requests about networks are sent concurrently, to keep the
	// engine busy.
	networksAtOnce = 2
)

// engine is the connection to one Docker engine.
type engine struct {
	requests
	info  system.Info
	asked time.Time // when info was read
	// networking is a semaphore for requests that create or remove networks. The engine
	// processes them one at a time; more requests would time out in its queue.
	networking chan struct{}
	// work shows something that takes long; see [Options].
	work func(what string) (step func(string), end func())
}

// dialEngine connects to the engine that findEngine names.
func dialEngine(ctx context.Context) (*engine, error) {
	at := findEngine()
	host := at.host
	if host == "" {
		return nil, fmt.Errorf("the engine is named %s, and that context is not there; see docker context ls", at.how)
	}
	if strings.HasPrefix(host, "ssh://") {
		return nil, fmt.Errorf("the engine at %s is reached by ssh, which waza does not speak; forward its socket, as by ssh -NL /tmp/engine.sock:/var/run/docker.sock HOST, and set DOCKER_HOST=unix:///tmp/engine.sock", host)
	}
	c, err := client.New(client.FromEnv, client.WithHost(host))
	if err != nil {
		return nil, fmt.Errorf("%w: %w; correct DOCKER_HOST, DOCKER_CERT_PATH or the context of the docker command", errNoEngine, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	answer, err := c.Info(ctx, client.InfoOptions{})
	info := answer.Info
	switch api := c.ClientVersion(); {
	case errors.Is(ctx.Err(), context.Canceled):
		err = context.Cause(ctx)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("%w: no answer from %s within %s; try again when the machine has less to do, or restart Docker", errEngineSilent, c.DaemonHost(), dialTimeout)
	case err != nil && strings.Contains(err.Error(), "permission denied while trying to connect"):
		err = fmt.Errorf("%w at %s: %s", errEngineClosed, c.DaemonHost(), joinGroup)
	case err != nil:
		cause, instead := "", ""
		if found := podmanSocket(); found != "" {
			instead = " (" + found + " is Podman's, which waza does not support)"
		}
		if says := err.Error(); !strings.Contains(says, "Is the docker daemon running?") && !strings.Contains(says, "if the daemon is running") { // these add nothing
			cause = " (" + said{err}.Error() + ")"
		}
		err = fmt.Errorf("%w at %s%s; start Docker, or set DOCKER_HOST to the address of an engine%s", errNoEngine, c.DaemonHost(), cause, instead)
	case isPodman(ctx, c):
		err = fmt.Errorf("the engine at %s is Podman %s, which takes no seccomp filter over Docker's API; use Docker Engine 20.10 or later, rootless if need be, and name it in DOCKER_HOST", c.DaemonHost(), info.ServerVersion)
	case versions.LessThan(api, minAPI):
		err = fmt.Errorf("the engine (Docker %s) speaks API %s; isolation needs %s (Engine 20.10) or later", info.ServerVersion, api, minAPI)
	case info.OSType != "linux":
		err = fmt.Errorf("the Docker engine runs %s containers; isolation needs Linux ones", info.OSType)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &engine{requests: requests{c}, info: info, asked: time.Now(), networking: make(chan struct{}, networksAtOnce), work: unseen}, nil
}

// unseen shows nothing.
func unseen(string) (step func(string), end func()) { return func(string) {}, func() {} }

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

// has reports whether an engine has a security option: rootless, userns, apparmor, selinux or
// seccomp.
func has(info system.Info, option string) bool {
	return slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(o, "name="), ",")
		return name == option
	})
}

// userMaps returns how the engine maps users, and what containers share because of that. It ignores
// the engine's AppArmor and SELinux options: these only say that the kernel supports them, not that
// containers have a profile.
func (e *engine) userMaps() (enforced, missing []string) {
	rootless, userns := has(e.info, "rootless"), has(e.info, "userns")
	if rootless {
		enforced = append(enforced, "the engine and root in its containers have no rights of root on its host")
	}
	if userns {
		enforced = append(enforced, "users of containers, root included, are other users on the engine's host")
	}
	if rootless || userns {
		missing = append(missing, guests.SharedOwner("containers"))
	}
	return enforced, missing
}

// checkPlatforms returns an error for platforms that the engine could only emulate.
// linux/arm64/v8 is the same as linux/arm64.
func (e *engine) checkPlatforms(of []sandbox.ContainerSpec) error {
	own := e.info.OSType + "/" + e.arch()
	for _, c := range of {
		wanted := strings.TrimSuffix(strings.ToLower(c.Platform), "/v8")
		if wanted != "" && wanted != own {
			return fmt.Errorf("%s wants the platform %s and the engine's is %s; remove the platform, or use an engine of that kind", c.Who, c.Platform, own)
		}
	}
	return nil
}

// answers returns nil if the engine answers.
func (e *engine) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := e.Ping(ctx, client.PingOptions{})
	return err
}

// isPodman reports whether an engine is Podman, which also implements Docker's API.
func isPodman(ctx context.Context, c *client.Client) bool {
	v, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	return err == nil && slices.ContainsFunc(v.Components, func(c system.ComponentVersion) bool { return c.Name == "Podman Engine" })
}

// place is where an engine is expected.
type place struct {
	host string // address
	how  string // what names it
}

// findEngine returns the engine that the docker command would use: at DOCKER_HOST, else at the
// endpoint of the current context, else at the default socket. If the default socket does not
// exist, it returns otherSocket. The host is empty if the context does not exist.
func findEngine() place {
	if host := os.Getenv(client.EnvOverrideHost); host != "" {
		return place{host, "by DOCKER_HOST"}
	}
	dir, how := dockerConfigDir(), "by DOCKER_CONTEXT"
	name := os.Getenv("DOCKER_CONTEXT")
	if name == "" {
		name, how = currentContext(dir), "by the docker command's context"
	}
	if name != "" && name != "default" {
		return place{contextHost(dir, name), how + ", " + name}
	}
	if !exists(strings.TrimPrefix(client.DefaultDockerHost, "unix://")) {
		if other, found := otherSocket(); found {
			return other
		}
	}
	return place{client.DefaultDockerHost, "at the default socket"}
}

// otherSocket returns the first socket of an engine that runs as this user or in its own virtual
// machine. It skips sockets that nobody listens on, which an engine may have left.
func otherSocket() (place, bool) {
	home, _ := os.UserHomeDir()
	for _, socket := range []struct{ path, of string }{
		{filepath.Join(runtimeDir(), "docker.sock"), "rootless Docker"},
		{filepath.Join(home, ".docker/run/docker.sock"), "Docker Desktop"},
		{filepath.Join(home, ".docker/desktop/docker.sock"), "Docker Desktop"},
		{filepath.Join(home, ".orbstack/run/docker.sock"), "OrbStack"},
		{filepath.Join(home, ".colima/default/docker.sock"), "Colima"},
		{filepath.Join(home, ".config/colima/default/docker.sock"), "Colima"},
		{filepath.Join(home, ".rd/docker.sock"), "Rancher Desktop"},
	} {
		if isListenedOn(socket.path) {
			return place{"unix://" + socket.path, "at the socket of " + socket.of}, true
		}
	}
	return place{}, false
}

// podmanSocket returns the path of a Podman socket, or "" if there is none.
func podmanSocket() string {
	home, _ := os.UserHomeDir()
	for _, path := range []string{
		filepath.Join(runtimeDir(), "podman/podman.sock"), "/run/podman/podman.sock",
		filepath.Join(home, ".local/share/containers/podman/machine/podman.sock"),
	} {
		if exists(path) {
			return path
		}
	}
	return ""
}

// isListenedOn reports whether a program listens on a socket.
func isListenedOn(path string) bool {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// runtimeDir returns the directory for sockets of this user's programs.
func runtimeDir() string {
	return cmp.Or(os.Getenv("XDG_RUNTIME_DIR"), "/run/user/"+strconv.Itoa(os.Getuid()))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
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

// currentContext returns the name of the current context in the docker command's configuration, or "".
func currentContext(dir string) string {
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	readInto(dir, "config.json", &config)
	return config.CurrentContext
}

// contextHost returns the endpoint of the context called name, or "" if it cannot be read.
func contextHost(dir, name string) string {
	// A context's directory is named after the digest of its name.
	sum := sha256.Sum256([]byte(name))
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	readInto(dir, filepath.Join("contexts", "meta", hex.EncodeToString(sum[:]), "meta.json"), &meta)
	return meta.Endpoints["docker"].Host
}

// readInto reads a file of the docker command's configuration, if there is one.
func readInto(dir, name string, v any) {
	if dir == "" {
		return
	}
	if data, err := files.Read(filepath.Join(dir, name), 1<<20); err == nil {
		_ = json.Unmarshal(data, v)
	}
}
