package grading

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

var (
	errEmpty    = errors.New("it checks nothing; add a check: waza schema eval lists those of its type")
	errEvidence = errors.New("missing evidence")
	errSpoilt   = fmt.Errorf("%w", errEvidence) // evidence that the agent may have kept from being recorded
)

// grader is the config of a grader, and judges by it. Its tags define the values that it accepts; see package
// strictyaml.
type grader interface {
	// grade runs all checks. It returns an error if it cannot judge, which wraps errEvidence if evidence is
	// missing; see also [report.lacks].
	grade(*subject) (report, error)
}

// Validated is a config with rules that no tag expresses.
type Validated interface {
	// Validate returns an error for each contradiction in the config.
	Validate() error
}

// Served is a config that is about MCP servers.
type Served interface {
	// Servers names them. Each must be declared, by the eval or a task.
	Servers() []string
}

// limiting is a config that forbids or limits the use of some MCP servers. A trial without such a server
// cannot use it, so the check holds.
type limiting interface {
	// needs names the servers that the trial must have. For other configs it must have all.
	needs() []string
}

// Planted is a config that is about canaries.
type Planted interface {
	// Planted names them; none means all.
	Planted() []string
}

// Filed is a config that names files.
type Filed interface {
	// Files names the files, by slash-separated paths relative to the eval.
	Files() []string
	// Hold sets the contents of the files, by name. It returns an error if one is not usable.
	Hold(map[string][]byte) error
}

// graders makes the empty config of each type of grader.
func graders() map[string]func() grader {
	return map[string]func() grader{
		"action_sequence":  func() grader { return new(ActionSequenceConfig) },
		"behavior":         func() grader { return new(BehaviorConfig) },
		"canary":           func() grader { return new(CanaryConfig) },
		"code":             func() grader { return new(CodeConfig) },
		"diff":             func() grader { return new(DiffConfig) },
		"file":             func() grader { return new(FileConfig) },
		"json_schema":      func() grader { return new(JSONSchemaConfig) },
		"mcp_compliance":   func() grader { return new(ComplianceConfig) },
		"program":          func() grader { return new(ProgramConfig) },
		"prompt":           func() grader { return new(PromptConfig) },
		"recovery":         func() grader { return new(RecoveryConfig) },
		"skill_invocation": func() grader { return new(SkillInvocationConfig) },
		"state":            func() grader { return new(StateConfig) },
		"text":             func() grader { return new(TextConfig) },
		"tool_calls":       func() grader { return new(ToolCallsConfig) },
		"tool_constraint":  func() grader { return new(ToolConstraintConfig) },
		"trigger":          func() grader { return new(TriggerConfig) },
	}
}

// NewConfig returns a pointer to the empty config of a grader type, ready to be decoded into,
// and whether there is such a type. The config may be [Validated], [Served], [Planted] or [Filed].
func NewConfig(graderType string) (any, bool) {
	made, ok := graders()[graderType]
	if !ok {
		return nil, false
	}
	return made(), true
}

// Types lists the grader types in alphabetical order.
func Types() []string { return slices.Sorted(maps.Keys(graders())) }

// TypeSchemas returns the JSON Schemas of config types that cannot be inferred from the Go
// type.
func TypeSchemas() map[reflect.Type]*jsonschema.Schema {
	text := &jsonschema.Schema{Type: "string"}
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[match.Tool](): {Type: "string", MinLength: jsonschema.Ptr(1)},
		reflect.TypeFor[Names](): {
			AnyOf: []*jsonschema.Schema{text, {Type: "array", Items: &jsonschema.Schema{Type: "string"}}},
		},
	}
}

// Names is a list of names that may be written as a single one.
type Names []string

// UnmarshalJSON reads a string or a list of strings.
func (n *Names) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*n = Names{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(n))
}

// load reads a grader of spec's type from its config.
func load(spec evidence.GraderSpec) (grader, error) {
	made, ok := graders()[spec.Type]
	if !ok {
		return nil, fmt.Errorf("no grader of type %q", spec.Type)
	}
	g := made()
	if len(spec.Config) > 0 {
		doc, err := strictyaml.FromJSON("config", spec.Config)
		if err != nil {
			return nil, err
		}
		if doc.DecodeAt(g, "config"); doc.Err() != nil {
			return nil, doc.Err()
		}
	}
	if rules, ok := g.(Validated); ok {
		if err := rules.Validate(); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	return g, hold(g, spec.Files)
}

// readable yields the graders with a valid config. The verdict of any other explains the
// error.
func readable(specs []evidence.GraderSpec) iter.Seq2[evidence.GraderSpec, grader] {
	return func(yield func(evidence.GraderSpec, grader) bool) {
		for _, spec := range specs {
			if g, err := load(spec); err == nil && !yield(spec, g) {
				return
			}
		}
	}
}

// hold gives g the files that its config names.
func hold(g grader, files map[string][]byte) error {
	names, ok := g.(Filed)
	if !ok {
		return nil
	}
	for _, name := range names.Files() {
		if _, ok := files[name]; !ok {
			return fmt.Errorf("%w: the file %s that the config names", errEvidence, quote(name))
		}
	}
	if err := names.Hold(files); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

// verdict runs one grader. spoilt reports whether the grader could not judge because the agent may have kept
// evidence from being recorded.
func verdict(spec evidence.GraderSpec, s *subject) (v evidence.Verdict, spoilt bool) {
	v = evidence.Verdict{Name: spec.Name, Type: spec.Type, Weight: spec.Weight}
	r, err := run(spec, s)
	if err == nil && len(r.failures) == 0 {
		err = r.missing
	}
	if err != nil {
		v.Result, v.Feedback = evidence.VerdictError, err.Error()
		return v, errors.Is(err, errSpoilt) && defence.BlamedLosses
	}
	if r.missing != nil {
		r.note("Not everything could be judged: %v.", r.missing)
	}
	v.Result, v.Score, v.Feedback, v.Details = r.result(), r.score(), r.feedback(), r.described()
	return v, false
}

func run(spec evidence.GraderSpec, s *subject) (report, error) {
	g, err := load(spec)
	if err != nil {
		return report{}, err
	}
	lacking := s.lacking(g)
	needed := lacking
	if limits, ok := g.(limiting); ok {
		needed = filter(limits.needs(), func(server string) bool { return slices.Contains(lacking, server) })
	}
	if len(needed) > 0 {
		return report{}, fmt.Errorf("the trial has no server %s", quote(needed[0]))
	}
	r, err := g.grade(s.of(spec))
	for _, server := range lacking {
		r.note("The trial has no server %s, so the agent could not call it.", quote(server))
	}
	return r, err
}

// compilable refuses expressions that RE2 does not accept.
func compilable(field string, expressions []string) error {
	var errs []error
	for i, expression := range expressions {
		if _, err := regexp.Compile(expression); err != nil {
			errs = append(errs, fmt.Errorf("%s[%d] must be a regular expression (RE2): %s; correct it", field, i, strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
		}
	}
	return errors.Join(errs...)
}

// within prefixes an error with its place in a config; for joined errors, it prefixes each.
func within(place string, err error) error {
	if err == nil {
		return nil
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	var errs []error
	for _, one := range all {
		errs = append(errs, fmt.Errorf("%s.%w", place, one))
	}
	return errors.Join(errs...)
}
