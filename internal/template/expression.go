package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	exprparser "github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// expression is the text between {{ and }}: a plain path, or a program.
type expression struct {
	source  string
	path    []any // string keys and int indexes; the first is a name
	program *vm.Program
	parsed  ast.Node // syntax tree of program
}

// In a source that may be a plain path, the numbers that are separate steps, as in items.0.id.
var (
	pathLike = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.\[\]]*$`)
	numbered = regexp.MustCompile(`\.([0-9]+)\b`)
)

func compile(source string, names []string) (*expression, error) {
	e := &expression{source: source}
	if source == "" {
		return nil, errors.New("an empty expression")
	}
	if pathLike.MatchString(source) {
		source = numbered.ReplaceAllString(source, "[$1]")
	}
	tree, err := exprparser.Parse(source)
	if err != nil {
		return nil, e.wrap(err)
	}
	if path, ok := plainPath(tree.Node); ok {
		if root, _ := path[0].(string); !slices.Contains(names, root) {
			return nil, e.wrap(unknownName(root, names))
		}
		e.path = path
		return e, nil
	}
	e.program, err = expr.Compile(source, compileOptions(names)...)
	if err != nil {
		return nil, e.wrap(err)
	}
	e.parsed = tree.Node
	return e, nil
}

// maxParts is the maximum number of names, values and operators of a bounded expression.
const maxParts = 64

// boundless are functions whose result can be much larger than their arguments.
var boundless = []string{"join", "repeat", "replace"}

// bound finds why the time or memory of an expression is not bounded.
type bound struct {
	parts int
	err   error
}

// Visit implements [ast.Visitor].
func (b *bound) Visit(node *ast.Node) {
	var what string
	switch node := (*node).(type) {
	case *ast.PredicateNode:
		what = "a loop"
	case *ast.VariableDeclaratorNode:
		what = "let"
	case *ast.BinaryNode:
		if node.Operator == ".." {
			what = "a range"
		}
	case *ast.BuiltinNode:
		if slices.Contains(boundless, node.Name) {
			what = node.Name
		}
	}
	if b.parts++; what == "" && b.parts > maxParts {
		what = fmt.Sprintf("more than %d parts", maxParts)
	}
	if what != "" && b.err == nil {
		b.err = fmt.Errorf("%s is not allowed here, where the result must stay small", what)
	}
}

// Bounded returns an error if a text has an expression that may take much more time or memory than
// its values.
func (t Text) Bounded() error {
	for _, p := range t {
		if p.value == nil || p.value.parsed == nil || !defence.BoundedTemplates {
			continue
		}
		var b bound
		if ast.Walk(&p.value.parsed, &b); b.err != nil {
			return p.value.wrap(b.err)
		}
	}
	return nil
}

// compileOptions declares names. It disables functions whose result may differ between runs, and
// fromJSON, which loses digits.
func compileOptions(names []string) []expr.Option {
	env := types.Map{}
	for _, name := range names {
		env[name] = types.Any
	}
	options := []expr.Option{expr.Env(env)}
	for _, builtin := range []string{"now", "keys", "values", "toPairs", "fromJSON"} {
		options = append(options, expr.DisableBuiltin(builtin))
	}
	return options
}

// Suggestion returns ` (did you mean "x"?)` for the candidate closest to word, or "".
func Suggestion(word string, candidates []string) string {
	near := strictyaml.Nearest(word, candidates)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", near)
}

// Quoted returns words in quotes, with commas between them.
func Quoted(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = fmt.Sprintf("%q", word)
	}
	return strings.Join(quoted, ", ")
}

func unknownName(name string, names []string) error {
	known := slices.Sorted(slices.Values(names))
	return fmt.Errorf("unknown name %q%s; known here: %s", name, Suggestion(name, known), strings.Join(known, ", "))
}

// IsName reports whether s is a valid variable name in the expression language.
func IsName(s string) bool {
	if ok, _ := regexp.MatchString(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`, s); !ok {
		return false
	}
	tree, err := exprparser.Parse(s)
	if err != nil {
		return false
	}
	_, ok := tree.Node.(*ast.IdentifierNode)
	return ok
}

// plainPath returns the path of an expression that consists of names, fields and indexes.
func plainPath(node ast.Node) ([]any, bool) {
	switch node := node.(type) {
	case *ast.IdentifierNode:
		return []any{node.Value}, true
	case *ast.MemberNode:
		path, ok := plainPath(node.Node)
		if !ok || node.Optional {
			return nil, false
		}
		switch property := node.Property.(type) {
		case *ast.StringNode:
			return append(path, property.Value), true
		case *ast.IntegerNode:
			return append(path, property.Value), true
		}
	}
	return nil, false
}

// eval returns the expression's value as a JSON value.
func (e *expression) eval(v *Variables) (any, error) {
	if e.path != nil {
		value, err := v.at(e.path)
		return value, e.wrap(err)
	}
	result, err := vm.Run(e.program, v.environment())
	if err != nil {
		return nil, e.wrap(err)
	}
	raw, err := jsontext.Marshal(result)
	if err != nil {
		return nil, e.wrap(err)
	}
	return jsontext.Parse(raw)
}

// wrap adds the expression to err, and shortens expr's errors to one line.
func (e *expression) wrap(err error) error {
	if err == nil {
		return nil
	}
	var at *file.Error
	if errors.As(err, &at) {
		err = errors.New(at.Message)
	}
	return fmt.Errorf("{{ %s }}: %w", e.source, err)
}

func descend(value, key any) (any, error) {
	switch value := value.(type) {
	case map[string]any:
		name, _ := key.(string)
		if field, ok := value[name]; ok {
			return field, nil
		}
		return nil, fmt.Errorf("has no %q; it has %s", fmt.Sprint(key), Quoted(slices.Sorted(maps.Keys(value))))
	case []any:
		index, ok := key.(int)
		if !ok {
			return nil, fmt.Errorf("is a list and has no %q", key)
		}
		if index < 0 || index >= len(value) {
			return nil, fmt.Errorf("is a list of %d and has no [%d]", len(value), index)
		}
		return value[index], nil
	case string:
		if inner, ok := inText(value); ok {
			return descend(inner, key)
		}
	}
	return nil, fmt.Errorf("is %s and has no %q", KindOf(value), fmt.Sprint(key))
}

// inText returns the object or list that a text represents in JSON.
func inText(text string) (any, bool) {
	value, err := jsontext.Parse([]byte(text))
	switch value.(type) {
	case map[string]any, []any:
		return value, err == nil
	}
	return nil, false
}

func pathText(path []any) string {
	var text strings.Builder
	for i, key := range path {
		switch {
		case i == 0:
			fmt.Fprint(&text, key)
		case isIndex(key):
			fmt.Fprintf(&text, "[%d]", key)
		default:
			fmt.Fprintf(&text, ".%s", key)
		}
	}
	return text.String()
}

func isIndex(key any) bool {
	_, ok := key.(int)
	return ok
}

// KindOf names a JSON value's type for messages.
func KindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case []any:
		return "a list"
	default:
		return "an object"
	}
}
