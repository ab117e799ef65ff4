package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Packages returns the images of all packages that the tasks' servers are installed from,
// without duplicates and with the lock's entries. The image of a custom agent comes first.
func Packages(e *eval.Eval, tasks []eval.ResolvedTask, lock *images.Lock, platform string) ([]images.Image, error) {
	var all []images.Image
	c := Choices{sources: map[string]*images.Source{}}
	if e.Config.Executor == evidence.ExecutorCommand {
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
			if !ok || known {
				continue
			}
			config := task.Servers[name]
			var source *images.Source
			if config.HasSource() {
				if source, err = sourceOf(e, config.Build, config.Secrets, c); err != nil {
					return nil, fmt.Errorf("task %s: server %q: %w", task.ID, name, err)
				}
				config.Image = source.TagOr(config.Image)
			}
			image := packageImage(e, p, config, lock, platform)
			image.Source = source
			all = append(all, image)
		}
	}
	return all, nil
}

// Install sets the versions of packages from the lock in the trials' plans, for an engine of
// the given platform. Packages that the lock lacks are returned by [Missing].
func Install(trials []*Trial, lock *images.Lock, platform string) error {
	for _, t := range trials {
		if build := t.Agent.Build; build != nil {
			if build.Entry == nil { // packages of built-in agents are resolved already
				build.Entry = images.New(build.Package, images.Bases{}, lock, platform).Entry
			}
			t.Agent.Package, t.Agent.Image = build.String(), build.Tag()
		}
		for i := range t.Servers {
			s := &t.Servers[i]
			if s.Build == nil {
				continue
			}
			s.Build.Entry = images.New(s.Build.Package, images.Bases{}, lock, platform).Entry
			if err := s.install(); err != nil {
				return fmt.Errorf("task %s: %w", t.Task, err)
			}
		}
	}
	return nil
}

// Missing returns the images of packages that are not resolved, without duplicates.
func Missing(trials []*Trial) (all []images.Image) {
	add := func(build *images.Image) {
		if build != nil && build.Entry == nil && !slices.ContainsFunc(all, func(i images.Image) bool { return i.Package.String() == build.Package.String() }) {
			all = append(all, *build)
		}
	}
	for _, t := range trials {
		add(t.Agent.Build)
		for _, s := range t.Servers {
			add(s.Build)
		}
	}
	return all
}

func bases(e *eval.Eval) images.Bases {
	i := e.Config.Isolation
	return images.Bases{NPM: i.NPMImage, PyPI: i.PyPIImage, Go: i.GoImage}
}

// agentImage returns the image to build for the eval's agent, or nil. Built-in agents have
// their own lock.
func agentImage(e *eval.Eval, lock *images.Lock) (*images.Image, error) {
	if e.Adapter == nil || e.Local || e.Config.Isolation.Agent.Image != "" {
		return nil, nil
	}
	if e.Config.Executor != evidence.ExecutorCommand {
		lock = adapter.Lock()
	}
	return e.Adapter.Build(bases(e), lock)
}
