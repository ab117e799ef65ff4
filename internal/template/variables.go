package template

import (
	"encoding/json"
	"fmt"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Variables are the values of expressions' names. They are JSON values: nil, bool, string,
// json.Number, []any, map[string]any.
type Variables struct {
	names []string       // in the order of Bind
	exact map[string]any // with numbers as written
	// computed has the values for programs, once there was one: numbers are int if they fit into 64
	// bits, else float64.
	computed map[string]any
}

// NewVariables returns variables without names.
func NewVariables() *Variables {
	return &Variables{exact: map[string]any{}, computed: map[string]any{}}
}

// Bind gives a name a value.
func (v *Variables) Bind(name string, value any) {
	v.names = append(v.names, name)
	v.exact[name] = value
	delete(v.computed, name)
}

// Mark and Release delimit the names that are bound in an iteration of a loop.
func (v *Variables) Mark() int { return len(v.names) }

// Release forgets the names that were bound since Mark.
func (v *Variables) Release(mark int) {
	for _, name := range v.names[mark:] {
		delete(v.exact, name)
		delete(v.computed, name)
	}
	v.names = v.names[:mark]
}

// at returns the value at a path.
func (v *Variables) at(path []any) (any, error) {
	name, _ := path[0].(string)
	value, bound := v.exact[name]
	if !bound {
		return nil, fmt.Errorf("there is no %s yet", name)
	}
	for i, key := range path[1:] {
		next, err := descend(value, key)
		if err != nil {
			return nil, fmt.Errorf("%s %w", pathText(path[:i+1]), err)
		}
		value = next
	}
	return value, nil
}

// environment returns the values for a program.
func (v *Variables) environment() map[string]any {
	for name, value := range v.exact {
		if _, done := v.computed[name]; !done {
			v.computed[name] = jsontext.Map(value, computable)
		}
	}
	return v.computed
}

// computable returns a scalar in the form in which expressions compute with it.
func computable(scalar any) any {
	n, is := scalar.(json.Number)
	if !is {
		return scalar
	}
	if i, err := n.Int64(); err == nil {
		return int(i)
	}
	f, _ := n.Float64()
	return f
}
