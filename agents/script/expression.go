package script

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

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// expression is the text between {{ and }}. A plain path, such as stock.json.items[0].id, is
// evaluated here: it keeps the digits of numbers, and a missing part is an error. Other
// expressions are programs of package expr.
type expression struct {
	source  string
	path    []any // string keys and int indexes; the first is a name
	program *vm.Program
}

func compile(source string, names []string) (expression, error) {
	e := expression{source: source}
	tree, err := exprparser.Parse(e.source)
	if err != nil {
		return e, e.wrap(err)
	}
	if path, ok := plainPath(tree.Node); ok {
		if root, _ := path[0].(string); !slices.Contains(names, root) {
			return e, e.wrap(unknownName(root, names))
		}
		e.path = path
		return e, nil
	}
	e.program, err = expr.Compile(e.source, compileOptions(names)...)
	if err != nil {
		return e, e.wrap(err)
	}
	return e, nil
}

// compileOptions declares names, and disables functions whose result may differ between runs,
// and fromJSON, which loses digits.
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

// suggestion returns ` (did you mean "x"?)` for the candidate closest to word, or "".
func suggestion(word string, candidates []string) string {
	near := strictyaml.Nearest(word, candidates)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", near)
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = fmt.Sprintf("%q", word)
	}
	return strings.Join(quoted, ", ")
}

func unknownName(name string, names []string) error {
	known := slices.Sorted(slices.Values(names))
	return fmt.Errorf("unknown name %q%s; known here: %s", name, suggestion(name, known), strings.Join(known, ", "))
}

// isName reports whether s is a valid variable name in the expression language.
func isName(s string) bool {
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
func (e expression) eval(v *variables) (any, error) {
	if e.path != nil {
		value, err := follow(e.path, v.exact)
		return value, e.wrap(err)
	}
	result, err := vm.Run(e.program, v.computed)
	if err != nil {
		return nil, e.wrap(err)
	}
	raw, err := evidence.Marshal(result)
	if err != nil {
		return nil, e.wrap(err)
	}
	return jsontext.Parse(raw)
}

// wrap adds the expression to err, and shortens expr's errors to one line.
func (e expression) wrap(err error) error {
	if err == nil {
		return nil
	}
	var at *file.Error
	if errors.As(err, &at) {
		err = errors.New(at.Message)
	}
	return fmt.Errorf("{{ %s }}: %w", e.source, err)
}

// follow returns the value at a path in values, a map of names.
func follow(path []any, values map[string]any) (any, error) {
	var value any = values
	for i, key := range path {
		next, err := descend(value, key)
		if err != nil {
			return nil, fmt.Errorf("%s %w", pathText(path[:i]), err)
		}
		value = next
	}
	return value, nil
}

func descend(value, key any) (any, error) {
	switch value := value.(type) {
	case map[string]any:
		name, _ := key.(string)
		if field, ok := value[name]; ok {
			return field, nil
		}
		return nil, fmt.Errorf("has no %q; it has %s", fmt.Sprint(key), quoteAll(slices.Sorted(maps.Keys(value))))
	case []any:
		index, ok := key.(int)
		if !ok {
			return nil, fmt.Errorf("is a list and has no %q", key)
		}
		if index < 0 || index >= len(value) {
			return nil, fmt.Errorf("is a list of %d and has no [%d]", len(value), index)
		}
		return value[index], nil
	default:
		return nil, fmt.Errorf("is %s and has no %q", kindOf(value), fmt.Sprint(key))
	}
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

// typed returns value as a T. Otherwise the error is complaint followed by the actual type.
func typed[T any](value any, complaint string) (T, error) {
	v, ok := value.(T)
	if !ok {
		return v, fmt.Errorf("%s %s", complaint, kindOf(value))
	}
	return v, nil
}

// kindOf names a JSON value's type for messages.
func kindOf(value any) string {
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
