package mcpconfig

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Expand puts variables into every string of s: ${VAR} and ${VAR:-default},
// where the default stands in for a variable that is unset or empty, and $${ for
// a literal "${". Values are not expanded again. Every field that fails is in the
// error, as [Errors] of the class [ErrMissingVariable] or [ErrInvalid]; the
// result is validated.
//
// secrets are the values that came from variables, without repeats: whoever
// writes anything about the server must redact them. A default is no secret.
func Expand(name string, s Server, lookup func(string) (string, bool)) (expanded Server, secrets []string, err error) {
	f := &findings{server: name}
	eachString(&s, func(field, key, value string) string {
		parts, err := split(value)
		if err != nil {
			f.add(ErrInvalid, field, key, "%s: %v", where(field, key), err)
			return value
		}
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(f.resolve(p, field, key, lookup, &secrets))
		}
		return b.String()
	})
	if err := f.err(); err != nil {
		return Server{}, nil, err
	}
	slices.Sort(secrets)
	return s, slices.Compact(secrets), Validate(name, literal(s))
}

// CheckText says what is wrong with the variables in a text, whatever their values.
func CheckText(text string) error {
	_, err := split(text)
	return err
}

// ExpandText puts variables into a text as Expand does into a server. Its error is of
// class [ErrMissingVariable] or [ErrInvalid]; secrets are the values that came in.
func ExpandText(text string, lookup func(string) (string, bool)) (expanded string, secrets []string, err error) {
	parts, err := split(text)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var b strings.Builder
	for _, p := range parts {
		if p.variable == "" {
			b.WriteString(p.text)
			continue
		}
		value, set := lookup(p.variable)
		switch {
		case value != "":
			b.WriteString(value)
			secrets = append(secrets, value)
		case set || p.hasDefault:
			b.WriteString(p.text)
		default:
			return "", nil, fmt.Errorf("%w: %s", ErrMissingVariable, p.variable)
		}
	}
	return b.String(), secrets, nil
}

func (f *findings) resolve(p part, field, key string, lookup func(string) (string, bool), secrets *[]string) string {
	if p.variable == "" {
		return p.text
	}
	value, set := lookup(p.variable)
	switch {
	case value != "":
		*secrets = append(*secrets, value)
		return value
	case !set && !p.hasDefault:
		f.add(ErrMissingVariable, field, key, "%s needs the variable %s, which is not set; set it, or give a default as in ${%[2]s:-default}",
			where(field, key), p.variable)
	}
	return p.text
}

// literal makes a value that looks like a variable after expansion, because it
// was escaped or came from one, look to Validate like the text it is.
func literal(s Server) Server {
	eachString(&s, func(_, _, value string) string { return strings.ReplaceAll(value, "${", "$") })
	return s
}

// Variable is one place of a server where a variable enters.
type Variable struct {
	Field, Key string // as in [Error]
	Name       string
	HasDefault bool
}

// Variables lists the variables of s in the order of its fields. Its error is
// what Expand would say whatever the variables' values.
func Variables(name string, s Server) ([]Variable, error) {
	f := &findings{server: name}
	var all []Variable
	eachString(&s, func(field, key, value string) string {
		parts, err := split(value)
		if err != nil {
			f.add(ErrInvalid, field, key, "%s: %v", where(field, key), err)
		}
		for _, p := range parts {
			if p.variable != "" {
				all = append(all, Variable{field, key, p.variable, p.hasDefault})
			}
		}
		return value
	})
	return all, f.err()
}

// part is a stretch of a string: text, or a variable with text as its default.
type part struct {
	text       string
	variable   string
	hasDefault bool
}

// IsVariable says whether an environment's variable can have this name.
func IsVariable(name string) bool { return variableName.MatchString(name) }

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

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

// reference reads what stands between the braces.
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

// hasVariable reports whether s may read otherwise once it is expanded.
func hasVariable(s string) bool { return strings.Contains(s, "${") }
