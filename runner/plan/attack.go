package plan

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/mcpconfig"
)

// planAttack plans the attack of a task, and returns the workspace's files including
// injections. If the attack is withheld, it is recorded but nothing is injected.
func planAttack(attack *eval.ResolvedAttack, withheld bool, files []File) (*evidence.TaskAttack, []File, error) {
	if attack == nil {
		return nil, files, nil
	}
	planned := &evidence.TaskAttack{Goal: attack.Goal, Gate: attack.Gate, Success: attack.Success, Withheld: withheld}
	for _, one := range attack.Inject {
		planned.Injections = append(planned.Injections, injection(one))
		if one.File == "" || withheld {
			continue
		}
		name := path.Clean(one.File)
		i := slices.IndexFunc(files, func(f File) bool { return f.Path == name })
		switch {
		case one.Content != nil:
			files = append(files, NewFile(name, *one.Content))
		case i < 0:
			return nil, nil, fmt.Errorf("attack: the workspace has no file %s to add to", name)
		default:
			files[i].Added = append(slices.Clone(files[i].Added), *one.Append...)
		}
	}
	return planned, files, nil
}

func injection(one eval.Injection) evidence.Injection {
	out := evidence.Injection{File: one.File, Server: one.Server, Tool: one.Tool, Text: one.Text, Match: one.Match}
	for _, text := range []*string{one.Content, one.Append} {
		if text != nil {
			out.Text = *text
		}
	}
	return out
}

// canaries are the canaries of an eval, with their values in a run by name.
type canaries struct {
	declared map[string]*eval.Canary
	values   map[string]string
}

func canariesOf(e *eval.Eval, run string) canaries {
	c := canaries{e.Config.Canaries, map[string]string{}}
	for name, declared := range c.declared {
		c.values[name] = cmp.Or(declared.Value, secret.MakeCanary(run, name))
	}
	return c
}

// each calls visit for each canary planted in a server, or in the workspace if server is empty.
func (c canaries) each(server string, visit func(p eval.Plant, value string)) {
	for _, name := range slices.Sorted(maps.Keys(c.declared)) {
		for _, p := range c.declared[name].Plant {
			if p.Server == server {
				visit(p, c.values[name])
			}
		}
	}
}

// inWorkspace returns the files of the workspace that contain canaries.
func (c canaries) inWorkspace() (files []File) {
	c.each("", func(p eval.Plant, value string) { files = append(files, NewFile(path.Clean(p.File), p.With(value))) })
	return files
}

// inServer plants canaries in a server's environment, and returns files that contain further
// ones.
func (c canaries) inServer(name string, config *mcpconfig.Server) (files []File) {
	config.Env = maps.Clone(config.Env)
	c.each(name, func(p eval.Plant, value string) {
		if p.Env == "" {
			files = append(files, NewFile(p.File, p.With(value)))
			return
		}
		if config.Env == nil {
			config.Env = map[string]string{}
		}
		config.Env[p.Env] = p.With(value)
	})
	return files
}

// record returns the record of the canaries in a trial with the given servers.
func (c canaries) record(servers []Server) (all []evidence.Canary) {
	for _, name := range slices.Sorted(maps.Keys(c.declared)) {
		one := evidence.Canary{Name: name, Value: c.values[name], Planted: []evidence.Plant{}, MayReach: c.declared[name].MayReach}
		for _, p := range c.declared[name].Plant {
			there := func(s Server) bool { return s.Name == p.Server }
			if p.Server == "" || slices.ContainsFunc(servers, there) {
				one.Planted = append(one.Planted, evidence.Plant{Server: p.Server, File: p.File, Env: p.Env})
			}
		}
		all = append(all, one)
	}
	return all
}
