package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Defaults of a container.
const (
	defaultCPUs         = 1
	defaultPids         = 256
	defaultAgentMemory  = 1 << 30
	defaultAgentDisk    = 512 << 20
	defaultServerMemory = 512 << 20
	defaultServerDisk   = 256 << 20
)

// Defaults of a server's time limits.
const (
	defaultStartup = 30 * time.Second
	defaultRequest = 300 * time.Second
)

// placed is a server as it is where it runs: taken out of docker run in a
// container, and with its directory found on this machine.
func placed(e *eval.Eval, name string, declared mcpconfig.Server) (mcpconfig.Server, error) {
	if e.Local {
		return e.Placed(declared), nil
	}
	return mcpconfig.FromDockerRun(name, declared)
}

func planServer(e *eval.Eval, name string, declared mcpconfig.Server, c Choices) (Server, error) {
	contained, err := placed(e, name, declared)
	if err != nil {
		return Server{}, err
	}
	config, secrets, err := mcpconfig.Expand(name, contained, c.Lookup)
	if err != nil {
		return Server{}, err
	}
	for _, secret := range secrets {
		c.Secrets.Add(secret)
	}
	plantedFiles := canariesOf(e, c.Run).inServer(name, &config)
	container, err := sized(sandbox.Container{
		Image: cmp.Or(config.Image, e.Config.Isolation.ServerImage), User: config.User, Platform: config.Platform,
		Pull: cmp.Or(c.Pull, config.Pull, e.Config.Isolation.Pull),
		CPUs: cmp.Or(config.CPUs, defaultCPUs), Pids: int64(cmp.Or(config.Pids, defaultPids)),
		Memory: defaultServerMemory, Disk: defaultServerDisk, OpenFiles: int64(cmp.Or(config.OpenFiles, sandbox.DefaultOpenFiles)),
	}, config.Memory, config.Disk, config.Scratch)
	if err != nil {
		return Server{}, fmt.Errorf("server %q: %w", name, err)
	}
	allowed, err := readEgress(config.Egress)
	if err != nil {
		return Server{}, fmt.Errorf("server %q: %w", name, err)
	}
	s := Server{
		Container: container, Name: name, Config: declared, Expanded: config,
		Transport: config.Transport(), Remote: config.URL != "", Port: config.Port, Path: config.Endpoint(),
		Shared:         config.URL == "" && cmp.Or(e.Config.MCPServerLifetime, c.Lifetime) == PerBenchmark,
		StartupTimeout: cmp.Or(seconds(config.StartupTimeout), defaultStartup),
		Timeout:        cmp.Or(seconds(config.Timeout/1000), defaultRequest),
		Egress:         allowed,
	}
	s.MaxFrames = int64(config.MaxFrames)
	for _, size := range []struct {
		text string
		to   *int64
	}{{config.MaxMessage, &s.MaxMessage}, {config.MaxTraffic, &s.MaxTraffic}} {
		if size.text == "" {
			continue
		}
		if *size.to, err = mcpconfig.ParseSize(size.text); err != nil {
			return s, fmt.Errorf("server %q: %w", name, err)
		}
	}
	if !e.Local && mcpconfig.IsDockerRun(declared) {
		s.Becomes = &contained
	}
	if s, err = s.installed(e, declared, c); err != nil {
		return s, err
	}
	if pins := cmp.Or(c.Pins, e.Config.Isolation.Pins, PinsWarn); pins != PinsOff {
		s.Pin = c.Lock.Pin(name)
		s.Strict = s.Pin != nil && pins == PinsFail
	}
	sources, err := eval.Sources(e, config.Files)
	if err != nil {
		return s, fmt.Errorf("server %q: %w", name, err)
	}
	for _, target := range slices.Sorted(maps.Keys(sources)) {
		source := sources[target]
		s.Files = append(s.Files, File{eval.WorkspaceFile{Path: target, Source: &source}})
	}
	s.Files = append(s.Files, plantedFiles...)
	s.Writable = writableFor(s.Files)
	for _, dir := range s.Writable {
		if mcpconfig.ReservedDir(dir) || s.Build != nil && (dir == images.InstallDir || strings.HasPrefix(dir, images.InstallDir+"/")) {
			return s, fmt.Errorf("server %q: no files can be put into %s of its container; choose a directory of their own, such as /data", name, dir)
		}
	}
	s.Writable = together(s.Writable, config.Writable)
	if s.Services, err = planServices(e, config, declared, container.Pull); err != nil {
		return s, fmt.Errorf("server %q: %w", name, err)
	}
	return s, nil
}

// together is the directories that a server names, and of those of its files the
// ones that lie in none of them.
func together(ofFiles, named []string) []string {
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

// sized is b with the sizes that are given in place of its own. Scratch is as large
// as the disk where it has no size of its own.
func sized(b sandbox.Container, memory, disk, scratch string) (sandbox.Container, error) {
	var errs [3]error
	if memory != "" {
		b.Memory, errs[0] = mcpconfig.ParseSize(memory)
	}
	if disk != "" {
		b.Disk, errs[1] = mcpconfig.ParseSize(disk)
	}
	b.Scratch = b.Disk
	if scratch != "" {
		b.Scratch, errs[2] = mcpconfig.ParseSize(scratch)
	}
	return b, errors.Join(errs[:]...)
}

// writableFor is the directories that files need in a container whose root is
// read-only.
func writableFor(files []File) []string { return outermost(dirsOf(files)) }

// dirsOf is the directory of each file.
func dirsOf(files []File) []string {
	var dirs []string
	for _, f := range files {
		dirs = append(dirs, path.Dir(f.Path))
	}
	return dirs
}

// outermost is dirs without those that lie in another, or in one that is writable
// as it is.
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

// Packages is the images of all servers of the tasks that are written as a package
// of a registry, each once, with what lock has of them, after that of an agent of the
// user's own which is one.
func Packages(e *eval.Eval, tasks []eval.ResolvedTask, lock *images.Lock, platform string) ([]images.Image, error) {
	var all []images.Image
	if e.Config.Executor == "command" {
		agent, err := agentImage(e, lock)
		if err != nil {
			return nil, err
		}
		if agent != nil {
			all = append(all, *agent)
		}
	}
	for _, task := range tasks {
		for _, name := range slices.Sorted(maps.Keys(task.Servers)) {
			p, ok, err := mcpconfig.ReadPackage(name, task.Servers[name])
			if err != nil {
				return nil, fmt.Errorf("task %s: %w", task.ID, err)
			}
			known := slices.ContainsFunc(all, func(i images.Image) bool { return i.Package.String() == p.String() })
			if ok && !known {
				all = append(all, images.New(p, bases(e), lock, platform))
			}
		}
	}
	return all, nil
}

func bases(e *eval.Eval) images.Bases {
	return images.Bases{NPM: e.Config.Isolation.NPMImage, PyPI: e.Config.Isolation.PyPIImage}
}

// installed is s with the image that holds its package and the program in it, in
// place of the command that would fetch it. Any other server stays as it is. What
// the lock lacks leaves it without an image.
func (s Server) installed(e *eval.Eval, declared mcpconfig.Server, c Choices) (Server, error) {
	if e.Local {
		return s, nil
	}
	p, ok, err := mcpconfig.ReadPackage(s.Name, declared)
	if err != nil || !ok {
		return s, err
	}
	image := images.New(p, bases(e), c.Lock, c.Platform)
	s.Build, s.Package, s.Image = &image, image.String(), image.Tag()
	if image.Entry == nil {
		return s, nil
	}
	if s.Expanded.Command, err = image.Program(); err != nil {
		return s, fmt.Errorf("server %q: %w", s.Name, err)
	}
	s.Expanded.Args = s.Expanded.Args[len(s.Expanded.Args)-len(p.Args):]
	s.Expanded.Cwd = cmp.Or(s.Expanded.Cwd, s.Expanded.WorkingDir, sandbox.HomeDir)
	return s, nil
}

// Process is the server's program with what it finds of egress in its environment.
func (s Server) Process(home string) process.Spec { return serverProcess(s.toldOfProxy(), home) }

// serverProcess is a server's program; without a command it is its image's own,
// with the server's arguments.
func serverProcess(config mcpconfig.Server, home string) process.Spec {
	spec := process.Spec{Dir: cmp.Or(config.Cwd, config.WorkingDir)}
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
