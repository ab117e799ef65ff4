package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
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

// agentImage is the image that is built for the eval's agent; nil for none. Packages of
// an agent that comes with waza have a lock of their own.
func agentImage(e *eval.Eval, lock *images.Lock) (*images.Image, error) {
	if e.Adapter == nil || e.Local || e.Config.Isolation.Agent.Image != "" {
		return nil, nil
	}
	if e.Config.Executor != "command" {
		lock = adapter.Lock()
	}
	return e.Adapter.Build(bases(e), lock)
}
