package strictyaml

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Limits on a file.
const (
	MaxBytes = 1 << 20 // of the file
	maxDepth = 64      // of lists and mappings
	maxNodes = 200_000 // with all aliases expanded
)

// parse returns the body of the single document in data, or nil after reporting a problem.
func (d *Document) parse(data string) *yaml.Node {
	if len(data) > MaxBytes {
		d.fail(Position{}, fmt.Sprintf("the file is larger than %d KiB", MaxBytes>>10))
		return nil
	}
	if !utf8.ValidString(data) {
		d.fail(after(valid(data)), "the file is not UTF-8 text; save it as UTF-8")
		return nil
	}
	if at := strings.IndexFunc(data, forbidden); at >= 0 {
		r, _ := utf8.DecodeRuneInString(data[at:])
		d.fail(after(data[:at]), fmt.Sprintf(`the file holds the character %U, which YAML does not allow; write it as \u%04[1]x in double quotes, or remove it`, r))
		return nil
	}
	text := version.ReplaceAllString(data, "$1#")
	text, d.written = conceal(text)
	bodies, err := documents(text)
	switch {
	case err != nil:
		d.syntaxProblem(text, err)
	case len(bodies) == 0:
		d.fail(Position{}, "the file is empty; write its keys, which waza schema lists for evals and tasks")
	case len(bodies) > 1:
		d.fail(position(bodies[1]), "the file holds more than one YAML document; put each in a file of its own")
	default:
		return bodies[0]
	}
	return nil
}

// valid returns the part of text before the first byte that is not UTF-8.
func valid(text string) string {
	for at, r := range text {
		if _, size := utf8.DecodeRuneInString(text[at:]); r == utf8.RuneError && size == 1 {
			return text[:at]
		}
	}
	return text
}

// forbidden reports whether r is a character that YAML files must not contain (YAML 1.2.2, section
// 5.1).
func forbidden(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' }

// misread reports whether the parser treats r as a line break, as in YAML 1.1, or rejects it,
// although YAML 1.2 allows it.
func misread(r rune) bool {
	return r == '\u2028' || r == '\u2029' || r >= 0x7f && r < 0xa0 || r == '\ufffe' || r == '\uffff'
}

// version matches the text before a %YAML directive, and its beginning. The parser rejects all
// versions but 1.1, so the directive is turned into a comment.
var version = regexp.MustCompile(`\A((?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))*)%(?:YAML[ \t]+1\.)`)

// conceal replaces characters that the parser misreads by others. It returns the text and a
// function that restores the characters.
func conceal(text string) (concealed string, written func(string) string) {
	if !strings.ContainsFunc(text, misread) {
		return text, func(s string) string { return s }
	}
	used := map[rune]bool{}
	for _, r := range text {
		used[r] = true
	}
	var there, back []string
	free := unicode.MaxRune - 2 // not all planes fit into MaxBytes
	for r := range used {
		if !misread(r) {
			continue
		}
		for used[free] {
			free--
		}
		there, back = append(there, string(r), string(free)), append(back, string(free), string(r))
		free--
	}
	return strings.NewReplacer(there...).Replace(text), strings.NewReplacer(back...).Replace
}

// documents returns the bodies of the documents in text that are not empty. It turns a panic of the
// parser into an error.
func documents(text string) (bodies []*yaml.Node, err error) {
	defer func() {
		if recover() != nil {
			bodies, err = nil, errors.New("the YAML parser cannot read this file; simplify its layout")
		}
	}()
	in, err := yaml.NewLoader(strings.NewReader(text), yaml.WithPlugin(policy{}))
	if err != nil {
		return nil, err
	}
	for {
		var document yaml.Node
		switch err := in.Load(&document); {
		case errors.Is(err, io.EOF):
			return bodies, nil
		case err != nil:
			return nil, err
		}
		if body := document.Content[0]; body.Value != "" || body.Tag != "!!null" {
			bodies = append(bodies, body)
		}
	}
}

// policy configures the parser: how deep values may be nested, and which aliases exist. It accepts
// all aliases, so that the converter reports those without an anchor along with other problems.
type policy struct{}

func (policy) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth > maxDepth {
		return errors.New(tooDeep())
	}
	return nil
}

func (policy) CheckAlias(int, int) error { return nil }

func (policy) NewAliasDataContext(yaml.AliasDataServices) (yaml.AliasDataContext, error) {
	return policy{}, nil
}

func (policy) BeginDocument() error                  { return nil }
func (policy) DefineAnchor(string, *yaml.Node) error { return nil }
func (policy) EndDocument() error                    { return nil }

func (policy) ResolveAlias(string) (*yaml.Node, bool, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, true, nil
}

// place is the position, relative to that of a syntax error, at which the mistake is.
type place int

const (
	here  place = iota
	word        // the word before it, such as a key before its colon
	begun       // the beginning of the value that it is in
)

// plainly maps messages of the parser to clearer ones. %c is the character at the place.
var plainly = map[string]struct {
	at    place
	plain string
}{
	"did not find expected ',' or ']'":                             {word, "the list before this lacks a comma or its closing ]"},
	"did not find expected ',' or '}'":                             {word, "the mapping before this lacks a comma or its closing }"},
	"found unexpected end of stream":                               {begun, "the text that begins here has no closing %c"},
	"found unexpected document indicator":                          {begun, "the text that begins here has no closing %c"},
	"mapping values are not allowed in this context":               {word, `no mapping can begin here; quote a value with ": " in it, and indent the keys of a mapping alike`},
	"block sequence entries are not allowed in this context":       {here, "no list can begin here; begin it on a line of its own, or quote a value that begins with -"},
	"found character that cannot start any token":                  {here, "a value cannot begin with %c; put it in quotes"},
	"did not find expected node content":                           {here, "a value cannot begin with %c; put it in quotes, or write a value before it"},
	"could not find expected ':'":                                  {begun, "the key that begins here has no colon; add one, or indent the line if it belongs to the value above"},
	"did not find expected key":                                    {here, "no key can begin here; indent the keys of a mapping alike, write a colon after each, and put the whole of a value in its quotes"},
	"did not find expected '-' indicator":                          {here, "no item of the list can begin here; begin each with -, and indent them alike"},
	"found unknown escape character":                               {here, `the text has a \ before a character that needs none; write \\ for a backslash, or use single quotes`},
	"found a tab character that violates indentation":              {here, "a tab cannot indent; use spaces"},
	"found a tab character where an indentation space is expected": {here, "a tab cannot indent; use spaces"},
}

// unclosed maps messages about lists and mappings that are not closed at the end of the file.
var unclosed = map[string]string{
	"did not find expected ',' or ']'": "the list that begins here has no closing ]",
	"did not find expected ',' or '}'": "the mapping that begins here has no closing }",
}

func (d *Document) syntaxProblem(text string, err error) {
	wrong, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		d.fail(Position{}, err.Error())
		return
	}
	pos, message := Position{wrong.Mark.Line, wrong.Mark.Column}, wrong.Message
	if pos.Line < 1 {
		pos = Position{}
	}
	if d.ends(pos) {
		if message == "did not find expected node content" {
			// The parser reports an unclosed value only after another value in it.
			if _, err := documents(text + "\n x"); err != nil && !strings.Contains(err.Error(), message) {
				d.syntaxProblem(text, err)
				return
			}
		}
		if plain, ok := unclosed[message]; ok {
			d.fail(Position{wrong.ContextMark.Line, wrong.ContextMark.Column}, "this is not valid YAML: "+plain)
			return
		}
	}
	if clear, ok := plainly[message]; ok {
		message = clear.plain
		switch clear.at {
		case begun:
			pos = Position{wrong.ContextMark.Line, wrong.ContextMark.Column}
		case word:
			pos.Column -= d.wordBefore(pos)
		}
		if r := d.rune(pos); r == '\t' {
			message = "a tab cannot indent; use spaces"
		} else {
			message = strings.ReplaceAll(message, "%c", window(string(r), 0))
		}
	} else {
		message = window(message, 0)
	}
	d.fail(pos, "this is not valid YAML: "+message)
}

// ends reports whether only blanks and comments follow a position.
func (d *Document) ends(pos Position) bool {
	for number := pos.Line; number <= len(d.lines); number++ {
		line := []rune(d.lines[number-1])
		if number == pos.Line {
			line = line[min(max(pos.Column-1, 0), len(line)):]
		}
		if rest := strings.TrimLeft(string(line), " \t"); rest != "" && rest[0] != '#' {
			return false
		}
	}
	return true
}

// rune returns the character at a position.
func (d *Document) rune(pos Position) rune {
	if pos.Line < 1 || pos.Line > len(d.lines) {
		return ' '
	}
	line := []rune(d.lines[pos.Line-1])
	if pos.Column < 1 || pos.Column > len(line) {
		return ' '
	}
	return line[pos.Column-1]
}

// wordBefore returns the length of the word before a position, if there is a colon at the position.
func (d *Document) wordBefore(pos Position) (length int) {
	if d.rune(pos) != ':' {
		return 0
	}
	for !unicode.IsSpace(d.rune(Position{pos.Line, pos.Column - length - 1})) {
		length++
	}
	return length
}

// after returns the position after text at the beginning of the file.
func after(text string) Position {
	lines := splitLines(text)
	return Position{len(lines), utf8.RuneCountInString(lines[len(lines)-1]) + 1}
}

// splitLines returns the lines of text without their line breaks.
func splitLines(text string) []string {
	return strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
}

func position(n *yaml.Node) Position { return Position{Line: max(1, n.Line), Column: max(1, n.Column)} }

func tooDeep() string {
	return fmt.Sprintf("lists and mappings are nested more than %d deep", maxDepth)
}
