package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits on a file. The underlying parser recurses, takes time quadratic in the number of
// keys of a mapping, and can panic on unusual input. So its token stream is limited before
// parsing, and panics are turned into errors.
const (
	MaxBytes  = 1 << 20 // of the file
	maxTokens = 50_000  // words, quoted and block strings, punctuation
	maxDepth  = 64      // of lists and mappings
	maxNodes  = 200_000 // with all aliases expanded
)

// parse returns the body of the single document in data, or nil after reporting a problem.
func (d *Document) parse(data []byte) ast.Node {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch {
	case len(data) > MaxBytes:
		d.fail(Position{}, ErrInvalid, fmt.Sprintf("the file is larger than %d KiB", MaxBytes>>10))
		return nil
	case !utf8.Valid(data):
		d.fail(Position{}, ErrInvalid, "the file is not UTF-8 text")
		return nil
	case bytes.ContainsRune(data, 0):
		d.fail(Position{}, ErrInvalid, "the file holds a NUL character, so it is not YAML")
		return nil
	}
	file, err := d.syntax(string(data))
	if err != nil {
		d.syntaxProblem(err)
		return nil
	}
	return d.single(file)
}

// syntax runs the parser. It turns a panic of the parser into an error.
func (d *Document) syntax(text string) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, errors.New("the YAML parser cannot read this file; simplify its layout")
		}
	}()
	tokens := lexer.Tokenize(text)
	if len(tokens) > maxTokens {
		return nil, fmt.Errorf("the file has more than %d words and marks; split it, or put long text into one block string", maxTokens)
	}
	if err := checkDepth(tokens); err != nil {
		return nil, err
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// checkDepth limits the recursion of the parser: by brackets, and by markers that can nest
// within one line. Nesting by indentation is limited by the size of the file.
func checkDepth(tokens token.Tokens) error {
	brackets, marks, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, marks = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets = max(0, brackets-1)
		case token.CollectEntryType:
			marks = 0
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType, token.MappingValueType:
			marks++
		}
		if brackets > maxDepth || marks > maxDepth {
			return &yaml.SyntaxError{Message: tooDeep(), Token: t}
		}
	}
	return nil
}

// plainly maps messages of the YAML library to clearer ones.
var plainly = map[string]string{
	"sequence end token ']' not found":                   "the list that begins here has no closing ]",
	"could not find flow mapping end token '}'":          "the mapping that begins here has no closing }",
	"',' or ']' must be specified":                       "the list before this lacks a comma or its closing ]",
	"',' or '}' must be specified":                       "the mapping before this lacks a comma or its closing }",
	"could not find end character of double-quoted text": `the text that begins here has no closing "`,
	"could not find end character of single-quoted text": "the text that begins here has no closing '",
	"mapping value is not allowed in this context":       `no mapping can begin here; quote a value with ": " in it, and indent the keys of a mapping alike`,
	"'@' is a reserved character":                        "a value cannot begin with @; put it in quotes",
	"'`' is a reserved character":                        "a value cannot begin with `; put it in quotes",
}

func (d *Document) syntaxProblem(err error) {
	var located yaml.Error
	if !errors.As(err, &located) || located.GetToken() == nil {
		d.fail(Position{}, ErrInvalid, err.Error())
		return
	}
	message, _, _ := strings.Cut(located.GetMessage(), "\n")
	if strings.Contains(message, "\t") {
		message = "a tab cannot indent; use spaces"
	}
	if plain, ok := plainly[message]; ok {
		message = plain
	}
	d.fail(position(located.GetToken()), ErrInvalid, "this is not valid YAML: "+window(message, 0))
}

// single returns the body of the file's only document.
func (d *Document) single(file *ast.File) ast.Node {
	var body ast.Node
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.NullNode:
			continue
		}
		if body != nil {
			d.fail(start(doc.Body), ErrInvalid, "the file holds more than one YAML document; put each in a file of its own")
			return nil
		}
		body = doc.Body
	}
	if body == nil {
		d.fail(Position{}, ErrInvalid, "the file is empty; write its keys, which waza schema lists for evals and tasks")
	}
	return body
}

// start returns the start position of n. The token of a mapping is its colon.
func start(n ast.Node) Position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 {
			return start(n.Values[0])
		}
	case *ast.MappingValueNode:
		return position(n.Key.GetToken())
	}
	return position(n.GetToken())
}

func position(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{}
	}
	return Position{Line: max(1, t.Position.Line), Column: max(1, t.Position.Column)}
}

func tooDeep() string {
	return fmt.Sprintf("lists and mappings are nested more than %d deep", maxDepth)
}
