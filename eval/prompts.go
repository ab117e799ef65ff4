package eval

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
)

// promptValues are the values that templates in prompts can name. As in upstream waza, Iteration and Attempt
// are always 0.
type promptValues struct {
	Vars               map[string]string
	TaskName           string
	Iteration, Attempt int
}

var (
	// action matches an action of a template, or other text in double braces.
	action = regexp.MustCompile(`(?s)\{\{-?\s*(.*?)\s*-?\}\}`)
	// named matches a name, such as one of promptValues, in an action.
	named = regexp.MustCompile(`(^|[\s(|$])\.[A-Z]`)
	// keyword matches the keyword of a control action, such as end, which need not name a value.
	keyword = regexp.MustCompile(`^(if|else|end|with|range|define|template|block|break|continue)\b`)
)

// maxPart is the maximum size, in bytes, of arguments and results of functions in prompts; maxFilled that of
// a filled prompt; and maxOpen the maximum number of parentheses in a prompt.
const (
	maxPart   = 64 << 10
	maxFilled = 8 << 20
	maxOpen   = 1000
)

// fill expands a prompt that is a template, which means that it contains an action with a name of v. It keeps
// other text in double braces. Its error completes a sentence that begins with "the prompt has".
func (v promptValues) fill(prompt string) (string, error) {
	inner := func(found string) string { return action.FindStringSubmatch(found)[1] }
	if !slices.ContainsFunc(action.FindAllString(prompt, -1), func(found string) bool { return named.MatchString(inner(found)) }) {
		return prompt, nil
	}
	if strings.Count(prompt, "(") > maxOpen {
		return prompt, fmt.Errorf("more than %d opening parentheses, too many for a template", maxOpen)
	}
	source := action.ReplaceAllStringFunc(prompt, func(found string) string {
		if code := inner(found); named.MatchString(code) || keyword.MatchString(code) || strings.HasPrefix(code, "/*") || code == "." {
			return found
		}
		return fmt.Sprintf("{{%q}}", found)
	})
	t, err := template.New("").Option("missingkey=error").Funcs(promptFunctions()).Parse(source)
	if err == nil {
		err = v.check(t.Root)
	}
	var out filledPrompt
	if err == nil {
		err = t.Execute(&out, v)
	}
	if fault := (*promptError)(nil); errors.As(err, &fault) {
		return prompt, fault
	}
	if err != nil {
		_, why, _ := strings.Cut(err.Error(), "template: :")
		return prompt, fmt.Errorf("a template that cannot be filled: line %s", text.Shorten(why, 200))
	}
	return out.String(), nil
}

// promptError describes something that is not allowed in a template.
type promptError struct{ what string }

func (e *promptError) Error() string { return e.what }

// filledPrompt collects an expanded prompt.
type filledPrompt struct{ strings.Builder }

func (p *filledPrompt) Write(data []byte) (int, error) {
	if p.Len()+len(data) > maxFilled {
		return 0, &promptError{fmt.Sprintf("a template that makes more than %d MiB", maxFilled>>20)}
	}
	return p.Builder.Write(data)
}

// promptFunctions are the functions on texts. They reject large arguments and results.
func promptFunctions() template.FuncMap {
	bounded := func(makes func(args []any) string) func(args ...any) (string, error) {
		return func(args ...any) (string, error) {
			size := 0
			for _, arg := range args {
				if s, ok := arg.(string); ok {
					size += len(s)
				}
			}
			if size <= maxPart {
				if made := makes(args); len(made) <= maxPart {
					return made, nil
				}
			}
			return "", &promptError{fmt.Sprintf("a template whose function makes more than %d bytes", maxPart)}
		}
	}
	return template.FuncMap{
		"print":    bounded(func(args []any) string { return fmt.Sprint(args...) }),
		"println":  bounded(func(args []any) string { return fmt.Sprintln(args...) }),
		"html":     bounded(func(args []any) string { return template.HTMLEscaper(args...) }),
		"js":       bounded(func(args []any) string { return template.JSEscaper(args...) }),
		"urlquery": bounded(func(args []any) string { return template.URLQueryEscaper(args...) }),
		"printf": func(format string, args ...any) (string, error) {
			if len(format) > 250 { // each verb may repeat an argument or pad it
				return "", &promptError{"a printf whose format is longer than 250 bytes"}
			}
			return bounded(func(args []any) string { return fmt.Sprintf(format, args...) })(args...)
		},
	}
}

// check rejects unknown names in a template, and everything that could run forever.
func (v promptValues) check(nodes ...parse.Node) error {
	for _, node := range nodes {
		var err error
		switch node := node.(type) {
		case *parse.ListNode:
			if node != nil {
				err = v.check(node.Nodes...)
			}
		case *parse.ActionNode:
			err = v.check(node.Pipe)
		case *parse.IfNode:
			err = v.check(node.Pipe, node.List, node.ElseList)
		case *parse.WithNode:
			err = v.check(node.Pipe, node.List, node.ElseList)
		case *parse.PipeNode:
			if len(node.Decl) > 0 {
				return &promptError{fmt.Sprintf("{{%s}}: variables are not supported in prompts", node)}
			}
			for _, command := range node.Cmds {
				err = errors.Join(err, v.check(command.Args...))
			}
		case *parse.FieldNode:
			err = v.name(node.Ident)
		case *parse.VariableNode:
			err = v.name(node.Ident[1:])
		case *parse.ChainNode:
			err = v.check(node.Node)
		case *parse.IdentifierNode:
			if node.Ident == "call" {
				return &promptError{"the function call, which is not supported in prompts"}
			}
		case *parse.TextNode, *parse.CommentNode, *parse.DotNode, *parse.StringNode, *parse.NumberNode, *parse.BoolNode, *parse.NilNode:
		default:
			what, _, _ := strings.Cut(node.String(), "}}")
			return &promptError{what + "}}, which is not supported in prompts; index, if, with and pipes are"}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// name checks a name in a template.
func (v promptValues) name(ident []string) error {
	switch {
	case len(ident) == 0 || ident[0] == "TaskName" || ident[0] == "Iteration" || ident[0] == "Attempt":
	case ident[0] != "Vars":
		return &promptError{fmt.Sprintf("{{.%s}}, which is unknown or differs in each run; .Vars.NAME, .TaskName, .Iteration and .Attempt can stand there", strings.Join(ident, "."))}
	case len(ident) > 1:
		if _, ok := v.Vars[ident[1]]; !ok {
			return &promptError{fmt.Sprintf("{{.Vars.%s}}, and inputs has no %q; %s", ident[1], ident[1], strictyaml.Suggest(ident[1], slices.Sorted(maps.Keys(v.Vars))))}
		}
	}
	return nil
}
