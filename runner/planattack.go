package runner

import (
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
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
		t.Files = append(t.Files, fileOf(name, *one.Content))
		return nil
	}
	i := slices.IndexFunc(t.Files, func(f File) bool { return f.Path == name })
	if i < 0 {
		return fmt.Errorf("attack: the workspace has no file %s to add to", name)
	}
	t.Files[i].Added = append(slices.Clone(t.Files[i].Added), *one.Append...)
	return nil
}

// underAttack says whether something is injected.
func (t *Trial) underAttack() bool { return t.Attack != nil && !t.Attack.Withheld }

// allGraders are the trial's and those of its attack's success.
func (t *Trial) allGraders() []evidence.GraderSpec {
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
