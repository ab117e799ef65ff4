package mcpconfig

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Expand expands variables in every string of s: ${VAR} and ${VAR:-default}, where the default is used if the
// variable is unset or empty, and $${ for a literal "${". Values are not expanded again. The error lists
// every field that fails, as [Errors]. The result is validated.
//
// values are the values of variables, without duplicates. Callers must redact those that are secret.
func Expand(name string, s Server, lookup func(string) (string, bool)) (expanded Server, values []Value, err error) {
	f := &findings{server: name}
	eachString(&s, func(field, key, value string) string {
		parts, err := split(value)
		if err != nil {
			f.add(field, key, "%s: %v", where(field, key), err)
			return value
		}
		text, used, missing := expand(parts, lookup)
		for _, variable := range missing {
			f.add(field, key, "%s needs the variable %s, which is not set; set it, or give a default as in ${%[2]s:-default}",
				where(field, key), variable)
		}
		values = append(values, used...)
		return text
	})
	if err := f.err(); err != nil {
		return Server{}, nil, err
	}
	slices.SortFunc(values, func(a, b Value) int {
		return cmp.Or(strings.Compare(a.Variable, b.Variable), strings.Compare(a.Text, b.Text))
	})
	return s, slices.Compact(values), Validate(name, literal(s))
}

// Value is the value of a variable that was inserted into a text. Defaults are not included, nor are values
// that equal the default given with the variable.
type Value struct{ Variable, Text string }

// CheckText returns an error if the variables in a text are malformed.
func CheckText(text string) error {
	_, err := split(text)
	return err
}

// ExpandText expands variables in a text, like [Expand]. values are the values of variables.
func ExpandText(text string, lookup func(string) (string, bool)) (expanded string, values []Value, err error) {
	parts, err := split(text)
	if err != nil {
		return "", nil, fmt.Errorf("invalid server: %w", err)
	}
	expanded, values, missing := expand(parts, lookup)
	if len(missing) > 0 {
		return "", nil, fmt.Errorf("missing variable: %s", missing[0])
	}
	return expanded, values, nil
}

// expand returns the text of parts, the values of variables in it, and the names of variables that are unset
// and have no default.
func expand(parts []part, lookup func(string) (string, bool)) (text string, values []Value, missing []string) {
	var b strings.Builder
	for _, p := range parts {
		value, set := "", true
		if p.variable != "" {
			value, set = lookup(p.variable)
		}
		switch {
		case value != "":
			b.WriteString(value)
			if !p.hasDefault || value != p.text {
				values = append(values, Value{p.variable, value})
			}
		case set || p.hasDefault:
			b.WriteString(p.text)
		default:
			missing = append(missing, p.variable)
		}
	}
	return b.String(), values, missing
}

// literal escapes text that looks like a variable after expansion, because it was escaped or is part of a
// value, so that Validate treats it as text.
func literal(s Server) Server {
	eachString(&s, func(_, _, value string) string { return strings.ReplaceAll(value, "${", "$") })
	return s
}

// Variable is a use of a variable in a server.
type Variable struct {
	Name       string
	HasDefault bool
}

// Variables lists the variables of s in the order of its fields. It returns the errors that Expand would
// return whatever the values of the variables are.
func Variables(name string, s Server) ([]Variable, error) {
	f := &findings{server: name}
	var all []Variable
	eachString(&s, func(field, key, value string) string {
		parts, err := split(value)
		if err != nil {
			f.add(field, key, "%s: %v", where(field, key), err)
		}
		for _, p := range parts {
			if p.variable != "" {
				all = append(all, Variable{p.variable, p.hasDefault})
			}
		}
		return value
	})
	return all, f.err()
}

// part is a part of a string: text, or a variable with text as its default.
type part struct {
	text       string
	variable   string
	hasDefault bool
}

// IsVariable reports whether name is valid for an environment variable.
func IsVariable(name string) bool { return variableName.MatchString(name) }

// VariablePattern matches valid names of environment variables.
const VariablePattern = `^[A-Za-z_][A-Za-z0-9_]*$`

var variableName = regexp.MustCompile(VariablePattern)

func split(s string) ([]part, error) {
	var parts []part
	for {
		start := strings.Index(s, "${")
		if start < 0 {
			return append(parts, part{text: s}), nil
		}
		if start > 0 && s[start-1] == '$' {
			parts = append(parts, part{text: s[:start-1] + "${"})
			s = s[start+2:]
			continue
		}
		end := strings.IndexByte(s[start:], '}')
		if end < 0 {
			return nil, fmt.Errorf("a ${ has no }; write $${ for a literal ${")
		}
		variable, err := reference(s[start+2 : start+end])
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{text: s[:start]}, variable)
		s = s[start+end+1:]
	}
}

// reference parses the text between the braces.
func reference(s string) (part, error) {
	name, fallback, hasDefault := strings.Cut(s, ":-")
	if !IsVariable(name) {
		return part{}, fmt.Errorf("${…} does not hold a variable's name; write ${VAR}, ${VAR:-default}, or $${ for a literal ${")
	}
	if strings.Contains(fallback, "${") {
		return part{}, fmt.Errorf("the default of ${%s} holds another variable, which is not possible", name)
	}
	return part{text: fallback, variable: name, hasDefault: hasDefault}, nil
}

// hasVariable reports whether expansion may change s.
func hasVariable(s string) bool { return strings.Contains(s, "${") }

// Merge lays overlay over base, server by server and field by field. A new name adds a server, and nil
// removes one, which must exist. In a server of both, env, secrets, headers and files merge by key, and
// services like servers; every other field that is set in overlay replaces that of base. Neither argument is
// changed, and the result shares no memory with them.
//
// The result is not validated: a field of overlay may be incompatible with one of base.
func Merge(base, overlay map[string]*Server) (map[string]Server, error) {
	f := &findings{}
	merged := make(map[string]Server, len(base)+len(overlay))
	for name, s := range base {
		if s == nil {
			f.server = name
			f.invalid("", "there is nothing to remove it from; give it a command, an image or a url")
			continue
		}
		merged[name] = clone(*s)
	}
	for _, name := range slices.Sorted(maps.Keys(overlay)) {
		under, declared := merged[name]
		switch over := overlay[name]; {
		case over != nil:
			f.server = name
			merged[name] = f.overlay(under, clone(*over))
		case declared:
			delete(merged, name)
		default:
			f.server = name
			f.invalid("", "the eval does not declare it, so it cannot be removed")
		}
	}
	return merged, f.err()
}

func (f *findings) overlay(s, over Server) Server {
	s.Services = f.overlayServices(s.Services, over.Services)
	over.Services = nil
	lay(&s, &over)
	return s
}

// overlayServices lays services of one server over others. Its result may share memory with the arguments,
// which are copies.
func (f *findings) overlayServices(services, over map[string]*Service) map[string]*Service {
	for _, name := range slices.Sorted(maps.Keys(over)) {
		under, declared := services[name]
		switch {
		case over[name] != nil && under != nil:
			lay(under, over[name])
		case over[name] != nil:
			if services == nil {
				services = make(map[string]*Service)
			}
			services[name] = over[name]
		case declared:
			delete(services, name)
		default:
			f.invalid("services."+name, "services.%s: the eval does not declare it, so it cannot be removed", name)
		}
	}
	return services
}

// lay copies every field that is set in over to under; maps merge by key.
func lay[T any](under, over *T) {
	layFields(reflect.ValueOf(under).Elem(), reflect.ValueOf(over).Elem())
}

func layFields(to, from reflect.Value) {
	for i := range to.NumField() {
		switch {
		case from.Field(i).IsZero():
		case to.Type().Field(i).Anonymous:
			layFields(to.Field(i), from.Field(i))
		case to.Field(i).Kind() == reflect.Map && !to.Field(i).IsNil():
			for key, value := range from.Field(i).Seq2() {
				to.Field(i).SetMapIndex(key, value)
			}
		default:
			to.Field(i).Set(from.Field(i))
		}
	}
}

func clone(s Server) Server {
	eachString(&s, func(_, _, value string) string { return value })
	return s
}
