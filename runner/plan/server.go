package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/mock"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Server is one MCP server and its container. Config is the server as in the eval, for people
// to read. Values of variables are only passed to the server.
type Server struct {
	sandbox.Container
	Name           string           `json:"name"`
	Config         mcpconfig.Server `json:"config"`
	Transport      string           `json:"transport"`          // stdio, http or sse
	Remote         bool             `json:"remote,omitempty"`   // no container: a remote URL, or a mock
	Mock           *mock.Server     `json:"mock,omitempty"`     // played by the runner; nil for a real server
	Live           bool             `json:"live,omitempty"`     // also started, to answer what Mock has no answer to
	Port           int              `json:"port,omitempty"`     // loopback port in its container; 0 for stdio
	Path           string           `json:"path,omitempty"`     // path of the endpoint
	Shared         bool             `json:"shared,omitempty"`   // one instance for the run
	Writable       []string         `json:"writable,omitempty"` // directories, in addition to scratch and home
	Files          []File           `json:"files,omitempty"`    // by absolute path
	Services       []Service        `json:"services,omitempty"` // ordered by name
	StartupTimeout time.Duration    `json:"startup_timeout_ns"`
	Timeout        time.Duration    `json:"timeout_ns"`
	MaxMessage     int64            `json:"max_message,omitempty"` // in bytes; 0 for the default
	MaxFrames      int64            `json:"max_frames,omitempty"`  // messages per trial in each direction; 0 for the default
	MaxTraffic     int64            `json:"max_traffic,omitempty"` // in bytes; 0 for the default

	// Egress are the hosts outside that its programs may reach through the runner.
	Egress []mcpconfig.Destination `json:"egress,omitempty"`
	// Pin is the server's pinned catalog; nil for none. If Strict is set, a trial has no
	// outcome if the server's catalog differs.
	Pin    *catalog.Pin `json:"pin,omitempty"`
	Strict bool         `json:"strict_pin,omitempty"`

	// Becomes is Config resolved if it is a docker run command; else nil.
	Becomes *mcpconfig.Server `json:"becomes,omitempty"`
	// Package describes the package that the server is installed from, if its command is a
	// package launcher. Build is its image. Image is set to it once the package is resolved.
	Package string        `json:"package,omitempty"`
	Build   *images.Image `json:"-"`
	// Source is the source that Image is built from, or the image in which the package is
	// installed; nil for none.
	Source *images.Source `json:"-"`

	// Expanded is Config with which the server is started. It contains values of variables and
	// secrets.
	Expanded mcpconfig.Server `json:"-"`
}

// Host returns the host name under which the agent reaches the server.
func (s Server) Host() string { return mcpconfig.HostName(s.Name) }

// serviceNames returns the host names that resolve inside the server's container.
func (s Server) serviceNames() []string {
	names := []string{s.Host()}
	for _, service := range s.Services {
		names = append(names, service.Name)
	}
	return names
}

// withProxy returns the server's configuration with environment variables for egress, unless it
// sets them itself.
func (s Server) withProxy() mcpconfig.Server {
	config := s.Expanded
	if env := egress.Env(s.Egress, s.serviceNames()); env != nil {
		maps.Copy(env, config.Env)
		config.Env = env
	}
	return config
}

// Process returns the server's program, with environment variables for egress.
func (s Server) Process(home string) process.Spec { return serverProcess(s.withProxy(), home) }

// Program returns what is known of the server's program before its sandbox is open. Args is empty
// if the server is not run here or only its image names the program.
func (s Server) Program() process.Spec {
	if s.Remote {
		return process.Spec{}
	}
	return serverProcess(s.Expanded, "")
}

// serverProcess returns a server's program. Without a command it is the image's own program,
// with the server's arguments.
func serverProcess(config mcpconfig.Server, home string) process.Spec {
	spec := process.Spec{Dir: config.Cwd}
	if home != "" {
		spec.Env = []string{"HOME=" + home}
	}
	if config.Command != "" {
		spec.Args = append([]string{config.Command}, config.Args...)
	} else {
		spec.Args, spec.OfImage = config.Args, true
	}
	for _, key := range slices.Sorted(maps.Keys(config.Env)) {
		spec.Env = append(spec.Env, key+"="+config.Env[key])
	}
	return spec
}

// Default limits of a container.
const (
	defaultCPUs         = 1
	defaultPids         = 256
	defaultAgentMemory  = 1 << 30
	defaultAgentDisk    = 512 << 20
	defaultServerMemory = 512 << 20
	defaultServerDisk   = 256 << 20
)

// placed returns a server's configuration for where it runs: in a container, with a docker run
// command resolved, or on this machine, with its working directory.
func placed(e *eval.Eval, name string, declared mcpconfig.Server) (mcpconfig.Server, error) {
	if e.Local {
		return e.Placed(declared), nil
	}
	return mcpconfig.FromDockerRun(name, declared)
}

// declaration is the servers of a task with their plan. Tasks with equal servers share it.
type declaration struct {
	servers    map[string]mcpconfig.Server
	planned    []Server
	unenforced []string // settings that have no effect without isolation
	mcpJSON    string
	err        error
}

func (d *declaration) plan(e *eval.Eval, c Choices) {
	if d.planned, d.unenforced, d.err = planServers(e, d.servers, c); d.err != nil {
		return
	}
	var names []string
	for _, s := range d.planned {
		names = append(names, s.Name)
	}
	var hosts map[string]string
	if hosts, d.err = mcpconfig.HostNames(names); d.err == nil {
		d.mcpJSON = string(mcpconfig.Render(hosts))
	}
}

// planServers plans the servers of a task: declared ones, ordered by name, and then the eval's
// mocks, which replace servers of the same name. It also returns settings that have no effect
// without isolation.
func planServers(e *eval.Eval, declared map[string]mcpconfig.Server, c Choices) (all []Server, unenforced []string, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if e.Plays(cassette.Servers) && !e.MissLive {
			if known := e.Cassette.Names(cassette.Servers); !slices.Contains(known, name) {
				errs = append(errs, e.LocateServer(name, fmt.Errorf("server %q is not in the cassette, which has %s; record the eval again, or leave servers out with --play", name, strings.Join(text.Few(known, 5), ", "))))
				continue
			}
			server := playedServer(name, mock.Played(name, &cassette.Side{}))
			server.Expanded.Tools = declared[name].Tools
			all = append(all, server)
			continue
		}
		server, err := planServer(e, name, declared[name], c)
		if of := e.Config.MCPServers[name]; err != nil && of != nil && reflect.DeepEqual(*of, declared[name]) {
			err = e.LocateServer(name, err)
		}
		if err == nil && e.Local {
			unenforced = append(unenforced, notEnforcedOf(server)...)
			server, err = server.onThisMachine(e.Dir())
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, server)
	}
	if err := together(e, errs); err != nil {
		return nil, nil, err
	}
	for _, mock := range e.Mocks {
		all = slices.DeleteFunc(all, func(s Server) bool { return s.Name == mock.Name })
		all = append(all, playedServer(mock.Name, mock))
	}
	return all, unenforced, nil
}

// playedServer returns a server that the runner plays.
func playedServer(name string, as *mock.Server) Server {
	return Server{Name: name, Mock: as, Remote: true, Transport: mcpconfig.Stdio, StartupTimeout: mcpconfig.DefaultStartup, Timeout: mcpconfig.DefaultRequest}
}

// playFor replaces servers by their recorded answers for a task, if the eval's cassette has any.
func playFor(e *eval.Eval, task string, all []Server) ([]Server, error) {
	all = slices.Clone(all)
	for i, s := range all {
		if !e.Plays(cassette.Servers) || s.Mock != nil && !s.Mock.IsPlayed() {
			continue
		}
		side, err := e.Cassette.Side(cassette.Servers, task, s.Name)
		switch {
		case err != nil:
			return nil, err
		case side != nil:
			all[i].Mock, all[i].Live, all[i].Shared = mock.Played(s.Name, side), e.MissLive, false
		case !e.MissLive:
			return nil, fmt.Errorf("the cassette has no server %q for the task; record it", s.Name)
		}
	}
	return all, nil
}

func planServer(e *eval.Eval, name string, declared mcpconfig.Server, c Choices) (Server, error) {
	contained, err := placed(e, name, declared)
	if err != nil {
		return Server{}, err
	}
	config, values, err := mcpconfig.Expand(name, contained, c.Lookup)
	if err != nil {
		return Server{}, err
	}
	c.hide(values)
	s := Server{Name: name, Config: declared}
	if !e.Local && mcpconfig.IsDockerRun(declared) {
		s.Becomes = &contained
	}
	if config.HasSource() {
		if s.Source, err = sourceOf(e, config.Build, config.Secrets, c); err != nil {
			return s, fmt.Errorf("server %q: %w", name, err)
		}
		config.Image = s.Source.TagOr(config.Image)
	}
	planted := canariesOf(e, c.Run).inServer(name, &config)
	if err := s.configure(e, config, c); err != nil {
		return s, fmt.Errorf("server %q: %w", name, err)
	}
	if s, err = s.packaged(e, declared, c); err != nil {
		return s, err
	}
	if pins := cmp.Or(c.Pins, e.Config.Isolation.Pins, PinsWarn); pins != PinsOff {
		s.Pin = c.Lock.Pin(name)
		s.Strict = s.Pin != nil && pins == PinsFail
	}
	if err := s.furnish(e, planted, c); err != nil {
		return s, fmt.Errorf("server %q: %w", name, err)
	}
	return s, nil
}

// configure sets the server's container, endpoint and limits from a configuration with expanded
// variables.
func (s *Server) configure(e *eval.Eval, config mcpconfig.Server, c Choices) (err error) {
	s.Container, err = sized(sandbox.Container{
		Image: cmp.Or(config.Image, e.Config.Isolation.ServerImage), User: config.User, Platform: config.Platform,
		Pull: cmp.Or(c.Pull, config.Pull, e.Config.Isolation.Pull), Memory: defaultServerMemory, Disk: defaultServerDisk,
	}, config.Limits)
	if err != nil {
		return err
	}
	if s.Egress, err = readEgress(config.Egress); err != nil {
		return err
	}
	s.Expanded, s.Transport, s.Remote, s.Port, s.Path = config, config.Transport(), config.URL != "", config.Port, config.Endpoint()
	s.Shared = !s.Remote && (e.Config.MCPServerLifetime == PerBenchmark || e.Config.MCPServerLifetime == "" && e.Local)
	s.StartupTimeout = cmp.Or(seconds(config.StartupTimeout), mcpconfig.DefaultStartup)
	s.Timeout = cmp.Or(seconds(config.Timeout/1000), mcpconfig.DefaultRequest)
	s.MaxFrames = int64(config.MaxFrames)
	return errors.Join(readSize(&s.MaxMessage, config.MaxMessage), readSize(&s.MaxTraffic, config.MaxTraffic))
}

// furnish plans the server's files, including planted ones, its writable directories and its
// services.
func (s *Server) furnish(e *eval.Eval, planted []File, c Choices) (err error) {
	if s.Files, err = filesOf(e, s.Expanded.Files); err != nil {
		return err
	}
	s.Files = append(s.Files, planted...)
	ofFiles := outermost(dirsOf(s.Files))
	for _, dir := range ofFiles {
		if mcpconfig.ReservedDir(dir) || s.Build != nil && (dir == images.InstallDir || strings.HasPrefix(dir, images.InstallDir+"/")) {
			return fmt.Errorf("files cannot be copied into %s of its container; choose another directory, such as /data", dir)
		}
	}
	s.Writable = writable(ofFiles, s.Expanded.Writable)
	s.Services, err = planServices(e, s, c)
	return err
}

// filesOf returns files relative to the eval, by their paths in a container.
func filesOf(e *eval.Eval, wanted map[string]string) (files []File, err error) {
	sources, err := eval.Sources(e, wanted)
	for _, target := range slices.Sorted(maps.Keys(sources)) {
		source := sources[target]
		files = append(files, File{eval.WorkspaceFile{Path: target, Source: &source}})
	}
	return files, err
}

// writable returns the writable directories of a server: the named ones, and those of its files
// that no named one contains.
func writable(ofFiles, named []string) []string {
	all := slices.DeleteFunc(slices.Clone(named), func(dir string) bool { return dir == "/tmp" || dir == sandbox.HomeDir })
	for _, dir := range ofFiles {
		if !slices.ContainsFunc(named, func(n string) bool { return dir == n || strings.HasPrefix(dir, n+"/") }) {
			all = append(all, dir)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// sized returns a container with limits and defaults. Scratch defaults to the size of the disk.
func sized(c sandbox.Container, l mcpconfig.Limits) (sandbox.Container, error) {
	c.CPUs, c.Pids = cmp.Or(l.CPUs, defaultCPUs), int64(cmp.Or(l.Pids, defaultPids))
	c.OpenFiles = int64(cmp.Or(l.OpenFiles, sandbox.DefaultOpenFiles))
	err := errors.Join(readSize(&c.Memory, l.Memory), readSize(&c.Disk, l.Disk))
	c.NestedSandboxes = l.NestedSandboxes
	c.Scratch, c.ShmSize = c.Disk, sandbox.DefaultShmSize
	return c, errors.Join(err, readSize(&c.Scratch, l.Scratch), readSize(&c.ShmSize, l.ShmSize))
}

// readSize parses a size, unless it is empty.
func readSize(to *int64, text string) (err error) {
	if text != "" {
		*to, err = mcpconfig.ParseSize(text)
	}
	return err
}

// dirsOf returns the directory of each file.
func dirsOf(files []File) []string {
	var dirs []string
	for _, f := range files {
		dirs = append(dirs, path.Dir(f.Path))
	}
	return dirs
}

// outermost returns dirs without those inside another one or a directory that is always
// writable.
func outermost(dirs []string) []string {
	dirs = append(dirs, "/tmp", sandbox.HomeDir)
	slices.Sort(dirs)
	var outer []string
	for _, dir := range slices.Compact(dirs) {
		within := slices.ContainsFunc(outer, func(o string) bool { return dir == o || strings.HasPrefix(dir, o+"/") })
		if !within {
			outer = append(outer, dir)
		}
	}
	return slices.DeleteFunc(outer, func(dir string) bool { return dir == "/tmp" || dir == sandbox.HomeDir })
}

// onThisMachine returns a server as a process. Relative paths of its program and working
// directory are relative to the eval. A program name without a slash is looked up in PATH when
// it is started.
func (s Server) onThisMachine(evalDir string) (Server, error) {
	s.Container, s.Egress = sandbox.Container{}, nil
	dir, err := filepath.Abs(evalDir)
	if err != nil || s.Remote {
		return s, err
	}
	absolute := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	s.Expanded.Cwd = absolute(s.Expanded.Cwd)
	if strings.Contains(s.Expanded.Command, "/") {
		s.Expanded.Command = absolute(s.Expanded.Command)
	}
	return s, nil
}

// readEgress parses entries of egress with expanded variables.
func readEgress(entries []mcpconfig.Egress) ([]mcpconfig.Destination, error) {
	allowed, problems := mcpconfig.ReadEgress(entries)
	if len(problems) > 0 { // already checked
		return nil, fmt.Errorf("egress %s", problems[0].What)
	}
	return allowed, nil
}

func planEgressLimits(l eval.EgressLimits) (egress.Limits, error) {
	limits := egress.Limits{Connections: l.Connections, Rate: l.Rate}
	return limits, readSize(&limits.Bytes, l.Bytes)
}

// checkEgress returns an error if a destination has a name of the trial itself.
func checkEgress(containers []outgoing, own []string) error {
	for _, container := range containers {
		for _, d := range container.Allowed {
			if slices.Contains(own, d.Name) {
				return fmt.Errorf("egress of %s: %q is a server of this trial; choose another name, with address", container.Who, d.Name)
			}
		}
	}
	return nil
}

// packaged plans a server whose command is a package launcher: it runs in an image with the
// package installed. Other servers are returned unchanged.
func (s Server) packaged(e *eval.Eval, declared mcpconfig.Server, c Choices) (Server, error) {
	if e.Local {
		return s, nil
	}
	p, ok, err := mcpconfig.ReadPackage(s.Name, declared)
	if err != nil || !ok {
		return s, err
	}
	image := packageImage(e, p, s.Expanded, c.Lock, c.Platform)
	image.Source = s.Source
	s.Build = &image
	return s, s.install()
}

// packageImage returns the image of a server's package, based on the server's own image if it
// has one.
func packageImage(e *eval.Eval, p mcpconfig.Package, config mcpconfig.Server, lock *images.Lock, platform string) images.Image {
	on := bases(e)
	if config.Image != "" {
		on = images.Bases{NPM: config.Image, PyPI: config.Image}
	}
	image := images.New(p, on, lock, platform)
	if config.Build != nil {
		image.Args = config.Build.Args
	}
	return image
}

// sourceOf returns the source of a build, or nil if there is nothing to build. It leaves out the
// eval's own files and the files of secrets, of the eval's servers and of the given ones, under any
// name.
func sourceOf(e *eval.Eval, b *mcpconfig.Build, secrets map[string]mcpconfig.Secret, c Choices) (*images.Source, error) {
	if e.Local || b == nil {
		return nil, nil
	}
	secret := secretFiles(e, secrets)
	how := fmt.Sprintf("%+v %q", *b, secret) // maps are printed in the order of their keys
	if c.sources[how] == nil {
		left := slices.Clone(c.Output)
		for _, path := range secret {
			if info, err := os.Stat(path); err == nil { // a missing file needs no exclusion
				left = append(left, info)
			}
		}
		source, err := images.ReadSource(e.BuildDir(*b), *b, bases(e), slices.Concat(e.Files(), c.Omit), left...)
		if err != nil {
			return nil, fmt.Errorf("build: %w", err)
		}
		c.sources[how] = source
	}
	return c.sources[how], nil
}

// secretFiles returns the paths of the given secrets' files and of those of the eval's servers.
func secretFiles(e *eval.Eval, secrets map[string]mcpconfig.Secret) (paths []string) {
	for _, s := range append(slices.Collect(maps.Values(e.Config.MCPServers)), &mcpconfig.Server{Secrets: secrets}) {
		if s == nil {
			continue
		}
		for _, secret := range s.Secrets {
			switch {
			case filepath.IsAbs(secret.File):
				paths = append(paths, secret.File)
			case secret.File != "":
				paths = append(paths, filepath.Join(e.Dir(), secret.File))
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// install sets the image of Build and, once that is resolved, replaces the command by the
// installed program. It may be called again with another entry.
func (s *Server) install() (err error) {
	s.Package, s.Image = s.Build.String(), s.Build.Tag()
	if s.Build.Entry == nil {
		return nil
	}
	if s.Expanded.Command, err = s.Build.Program(); err != nil {
		return fmt.Errorf("server %q: %w", s.Name, err)
	}
	s.Expanded.Args = s.Expanded.Args[len(s.Expanded.Args)-len(s.Build.Package.Args):]
	s.Expanded.Cwd = cmp.Or(s.Expanded.Cwd, sandbox.HomeDir)
	return nil
}

// defaultReady is the default time until a service must be ready.
const defaultReady = 60 * time.Second

// Service is a service of a server, and its container. Values of variables are only passed to
// the service.
type Service struct {
	sandbox.Container
	Name     string   `json:"name"`
	Ports    []int    `json:"ports"`              // loopback ports in its container
	Writable []string `json:"writable,omitempty"` // directories, in addition to scratch and home
	Files    []File   `json:"files,omitempty"`    // by absolute path
	Ready    Ready    `json:"ready"`

	// Source is the source that Image is built from; nil for none.
	Source *images.Source `json:"-"`
	// Expanded is the configuration with which the service is started. It contains values of
	// variables.
	Expanded mcpconfig.Service `json:"-"`
	declared mcpconfig.Service
}

// Ready is how to detect that a service is ready: with its image's health check, or else with a
// command.
type Ready struct {
	Health  bool          `json:"health"`
	Timeout time.Duration `json:"timeout_ns"`
}

func planServices(e *eval.Eval, of *Server, c Choices) (services []Service, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(of.Expanded.Services)) {
		s, err := planService(e, name, of, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("service %q: %w", name, err))
		}
		services = append(services, s)
	}
	return services, errors.Join(errs...)
}

func planService(e *eval.Eval, name string, of *Server, c Choices) (Service, error) {
	config := *of.Expanded.Services[name]
	source, err := sourceOf(e, config.Build, of.Expanded.Secrets, c)
	if err != nil {
		return Service{}, err
	}
	container, err := sized(sandbox.Container{
		Image: source.TagOr(config.Image), User: config.User, Pull: of.Pull, Memory: defaultServerMemory, Disk: defaultServerDisk,
	}, config.Limits)
	if err != nil {
		return Service{}, err
	}
	s := Service{
		Container: container, Source: source, declared: *of.Config.Services[name], Name: name, Ports: config.Ports, Expanded: config,
		Ready: Ready{Health: config.Ready.Health, Timeout: cmp.Or(seconds(config.Ready.Timeout), defaultReady)},
	}
	if s.Files, err = filesOf(e, config.Files); err != nil {
		return s, err
	}
	s.Writable = outermost(append(dirsOf(s.Files), config.Writable...))
	for _, dir := range s.Writable {
		if mcpconfig.ReservedDir(dir) {
			return s, fmt.Errorf("%s of its container cannot be made writable; choose another directory, such as /data", dir)
		}
	}
	return s, nil
}

// Process returns the service's program.
func (s Service) Process(home string) process.Spec {
	of := s.Expanded
	return serverProcess(mcpconfig.Server{Command: of.Command, Args: of.Args, Env: of.Env}, home)
}

// Check returns the program that checks whether the service is ready. It has no Args if the
// image's health check is used.
func (s Service) Check(home string) process.Spec {
	check := s.Process(home)
	check.Args = s.Expanded.Ready.Exec
	return check
}
