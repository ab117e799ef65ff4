package runner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

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
	if s.expanded.Command, err = image.Program(); err != nil {
		return s, fmt.Errorf("server %q: %w", s.Name, err)
	}
	s.expanded.Args = s.expanded.Args[len(s.expanded.Args)-len(p.Args):]
	s.expanded.Cwd = cmp.Or(s.expanded.Cwd, s.expanded.WorkingDir, sandbox.HomeDir)
	return s, nil
}
