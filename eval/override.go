package eval

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// CheckExecutor says what is wrong with the name of an executor.
func CheckExecutor(name string) error {
	field, _ := reflect.TypeFor[Config]().FieldByName("Executor")
	limits := strictyaml.LimitsOf(field)
	if slices.Contains(limits.Enum, name) {
		return nil
	}
	return fmt.Errorf("unknown executor %q; %s", name, strictyaml.Suggest(name, limits.Enum))
}

// override puts what the options name in the place of what the file says.
func (l *loader) override() {
	c := &l.eval.Config
	l.written = c.Executor
	if l.opts.Executor != "" {
		l.written = cmp.Or(l.written, l.opts.Executor) // an eval without one is written for any
		c.Executor = l.opts.Executor
	}
	if l.opts.JudgeModel != "" {
		c.JudgeModel = l.opts.JudgeModel
	}
	if l.opts.Model != "" {
		c.Model = l.opts.Model
	}
}

// overridden says whether another executor than the file's is to run the eval.
func (l *loader) overridden() bool { return l.eval.Config.Executor != l.written }

// checkScripts refuses to have scripts that the eval's own executor plays ignored by
// another, and an eval without scripts to be played.
func (l *loader) checkScripts() {
	at, executor := strictyaml.Path{"config", "executor"}, l.eval.Config.Executor
	switch {
	case !l.overridden():
	case executor == "script":
		l.doc.Problemf(at, "executor script needs a script in each task; this eval is written for executor %s", l.written)
	case l.scripts > 0:
		l.doc.Problemf(at, "the tasks have a script, which executor script alone plays; executor %s cannot run this eval", executor)
	}
}
