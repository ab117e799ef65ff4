package plan

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

// planAttack has the attack of a task in its trial: what is injected, and the graders of
// its success. Withheld it is on record, and nothing is injected.
func (t *Trial) planAttack(attack *eval.ResolvedAttack, withheld bool) error {
	if attack == nil {
		return nil
	}
	t.Attack = &evidence.TaskAttack{Goal: attack.Goal, Gate: attack.Gate, Success: attack.Success, Withheld: withheld}
	for _, one := range attack.Inject {
		t.Attack.Injections = append(t.Attack.Injections, injection(one))
		if one.File == "" || withheld {
			continue
		}
		if err := t.injectFile(one); err != nil {
			return err
		}
	}
	return nil
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

func (t *Trial) injectFile(one eval.Injection) error {
	name := path.Clean(one.File)
	if one.Content != nil {
		t.Files = append(t.Files, NewFile(name, *one.Content))
		return nil
	}
	i := slices.IndexFunc(t.Files, func(f File) bool { return f.Path == name })
	if i < 0 {
		return fmt.Errorf("attack: the workspace has no file %s to add to", name)
	}
	t.Files[i].Added = append(slices.Clone(t.Files[i].Added), *one.Append...)
	return nil
}

// UnderAttack says whether something is injected.
func (t *Trial) UnderAttack() bool { return t.Attack != nil && !t.Attack.Withheld }

// AllGraders are the trial's and those of its attack's success.
func (t *Trial) AllGraders() []evidence.GraderSpec {
	return evidence.Trial{Graders: t.Graders, Attack: t.Attack}.AllGraders()
}

// describeAttack tells what is injected where.
func (t *Trial) describeAttack(b io.Writer) {
	if t.Attack == nil {
		return
	}
	withheld := ""
	if t.Attack.Withheld {
		withheld = ", withheld"
	}
	fmt.Fprintf(b, "  attack      %s%s\n", t.Attack.Goal, withheld)
	for _, one := range t.Attack.Injections {
		where := "file " + one.File
		if one.Tool != "" {
			where = fmt.Sprintf("results of %s of server %s", one.Tool, one.Server)
		}
		fmt.Fprintf(b, "              %d bytes in %s\n", len(one.Text), where)
	}
	for _, g := range t.Attack.Success {
		fmt.Fprintf(b, "    success   %s (%s)\n", g.Name, g.Type)
	}
}

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
	c.each("", func(p eval.Plant, value string) { files = append(files, NewFile(path.Clean(p.File), p.With(value))) })
	return files
}

// inServer has canaries in a server's environment, and returns the files that others
// are in.
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
