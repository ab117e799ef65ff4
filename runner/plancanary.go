package runner

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/canary"
	"github.com/waza-isolate/waza/mcpconfig"
)

// canaries are those of an eval with the values that they have in a run, by name.
type canaries struct {
	declared map[string]*eval.Canary
	values   map[string]string
}

func canariesOf(e *eval.Eval, run string) canaries {
	c := canaries{e.Config.Canaries, map[string]string{}}
	for name, declared := range c.declared {
		c.values[name] = cmp.Or(declared.Value, canary.Make(run, name))
	}
	return c
}

// each goes through the places of a server, or of the workspace where server is empty.
func (c canaries) each(server string, visit func(p eval.Plant, value string)) {
	for _, name := range slices.Sorted(maps.Keys(c.declared)) {
		for _, p := range c.declared[name].Plant {
			if p.Server == server {
				visit(p, c.values[name])
			}
		}
	}
}

// inWorkspace are the files of the workspace that canaries are in.
func (c canaries) inWorkspace() (files []File) {
	c.each("", func(p eval.Plant, value string) { files = append(files, fileOf(path.Clean(p.File), p.With(value))) })
	return files
}

// inServer has canaries in a server's environment, and returns the files that others
// are in.
func (c canaries) inServer(name string, config *mcpconfig.Server) (files []File) {
	config.Env = maps.Clone(config.Env)
	c.each(name, func(p eval.Plant, value string) {
		if p.Env == "" {
			files = append(files, fileOf(p.File, p.With(value)))
			return
		}
		if config.Env == nil {
			config.Env = map[string]string{}
		}
		config.Env[p.Env] = p.With(value)
	})
	return files
}

// record is what a trial with the servers keeps of them.
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

// describeCanaries tells where the trial's canaries are; their values are no secret, and
// other in each run.
func (t *Trial) describeCanaries(b io.Writer) {
	for _, c := range t.Canaries {
		places := []string{}
		for _, p := range c.Planted {
			places = append(places, placeOf(p))
		}
		beside := ""
		if len(c.MayReach) > 0 {
			beside = "; it may reach " + strings.Join(c.MayReach, ", ")
		}
		fmt.Fprintf(b, "  canary      %s in %s%s\n", c.Name, cmp.Or(strings.Join(places, ", "), "nothing"), beside)
	}
}

func placeOf(p evidence.Plant) string {
	what := "file " + p.File
	if p.Env != "" {
		what = "variable " + p.Env
	}
	if p.Server == "" {
		return what + " of the workspace"
	}
	return what + " of server " + p.Server
}
