package docs_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/grading"
)

// TestCompatNamesEveryKey checks that the page on upstream's evals says of each key that the
// loader knows, and of each that it refuses by name, what becomes of it.
func TestCompatNamesEveryKey(t *testing.T) {
	page := read(t, "compat.md")
	named := func(what, key string) {
		if !regexp.MustCompile("`([a-z_]+\\.)*" + key + "`").MatchString(page) {
			t.Errorf("compat.md does not say what becomes of %s of %s", key, what)
		}
	}
	for _, mapping := range []any{
		eval.Eval{}, eval.Config{}, eval.Metric{}, eval.Grader{}, eval.Task{}, eval.Inputs{}, eval.File{}, eval.Expected{}, eval.Outcome{}, eval.Behavior{},
		eval.TriggerTests{}, eval.TriggerPrompt{}, eval.Project{}.Defaults, eval.Project{}.Paths, eval.Project{}.Files,
	} {
		of := reflect.TypeOf(mapping)
		for _, field := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" && name != "-" {
				named(of.Name(), name)
			}
		}
	}
	for _, kind := range grading.Types() {
		named("graders", kind)
	}
}
