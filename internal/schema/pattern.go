package schema

import (
	"errors"
	"fmt"
	"iter"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// Limits on matching by backtracking.
const (
	maxBacktracking = 10_000          // bytes of a pattern
	maxGroups       = 64              // nesting of its groups
	maxMatch        = time.Second / 2 // to match one value
	maxMatching     = 5 * time.Second // of all patterns that share a clock
)

// Reasons why a pattern is not applied.
const (
	notECMA  = "is not an ECMA-262 regular expression"
	tooLarge = "is too large"
	tooSlow  = "takes too long to match"
)

// clock is the total time spent on compiling and matching patterns by backtracking.
type clock struct{ spent time.Duration }

// expression is a compiled pattern of a schema. JSON Schema requires a regular expression of
// ECMA-262.
//
// If RE2 can express the pattern, it matches in linear time. Otherwise, as with lookaheads, a
// backtracking engine matches, which may take exponential time and so has a time limit.
type expression struct {
	linear    *regexp.Regexp
	size      int // approximate number of instructions
	backtrack *regexp2.Regexp
	clock     *clock
}

// compilePattern returns an error that says why a pattern cannot be applied.
func compilePattern(text string, clock *clock) (*expression, error) {
	linear, ecma := translate(text)
	if !ecma { // RE2 has additional syntax, which servers in Go and Rust use
		linear = text
	}
	if linear != "" || text == "" {
		if e, err := compileLinear(linear); err == nil || !ecma {
			return e, err
		}
	}
	return compileBacktracking(text, clock)
}

func compileLinear(text string) (*expression, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, errors.New(notECMA)
	}
	size := instructions(parsed)
	if size > maxPattern {
		return nil, errors.New(tooLarge)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, errors.New(notECMA)
	}
	return &expression{linear: compiled, size: size}, nil
}

func compileBacktracking(text string, clock *clock) (e *expression, err error) {
	if len(text) > maxBacktracking || nesting(text) > maxGroups {
		return nil, errors.New(tooLarge)
	}
	defer clock.run(time.Now())
	defer func() {
		if recover() != nil { // a bug in the library must not end the run
			e, err = nil, errors.New(notECMA)
		}
	}()
	// JSON Schema recommends Unicode mode, but it rejects some patterns in use.
	compiled, err := regexp2.Compile(text, regexp2.ECMAScript, regexp2.Unicode)
	if err != nil {
		compiled, err = regexp2.Compile(text, regexp2.ECMAScript)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", notECMA, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return &expression{backtrack: compiled, size: 1 + len(text), clock: clock}, nil
}

// match reports whether s matches. It returns an error if that takes too long.
func (e *expression) match(s string) (ok bool, err error) {
	if e.linear != nil {
		return e.linear.MatchString(s), nil
	}
	left := maxMatching - e.clock.spent
	if left <= 0 {
		return false, errors.New(tooSlow)
	}
	defer e.clock.run(time.Now())
	defer func() {
		if recover() != nil {
			err = errors.New(tooSlow)
		}
	}()
	e.backtrack.MatchTimeout = min(left, maxMatch)
	if ok, err = e.backtrack.MatchString(s); err != nil {
		return false, errors.New(tooSlow)
	}
	return ok, nil
}

func (c *clock) run(since time.Time) { c.spent += time.Since(since) }

// nesting returns how deep the groups of a pattern are nested.
func nesting(text string) int {
	depth, deepest := 0, 0
	for part, class := range tokens(text) {
		switch {
		case class:
		case part[0] == '(':
			depth++
			deepest = max(deepest, depth)
		case part == ")":
			depth--
		}
	}
	return deepest
}

// tokens returns the tokens of a pattern, and whether each stands in a character class.
func tokens(text string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		class := false
		for len(text) > 0 {
			part := parts.FindString(text)
			if class && part[0] != '\\' {
				_, n := utf8.DecodeRuneInString(text)
				part = text[:n]
			}
			if !yield(part, class) {
				return
			}
			text = text[len(part):]
			if class {
				class = part != "]"
			} else {
				class = part[0] == '['
			}
		}
	}
}

// parts matches one token of a pattern.
var parts = regexp.MustCompile(`(?s)\\u\{[0-9A-Fa-f]{1,6}\}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\[pP]\{[A-Z][a-z]?\}|\\.|\(\?<[A-Za-z_]\w*>|\(\?[ims-]+:|\(\?<?.|\[\^?|.`)

// Replacements, in RE2's syntax, for what ECMA-262 and RE2 read differently.
const (
	ecmaSpace   = `\t\n\v\f\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	ecmaNewline = `\n\r\x{2028}\x{2029}`
)

// translate returns the RE2 pattern that is equivalent to an ECMA-262 pattern, or "" if there may
// be none, and whether the pattern may be valid in ECMA-262.
func translate(text string) (linear string, ecma bool) {
	var b strings.Builder
	same, opened := true, false
	for part, class := range tokens(text) {
		first := opened
		opened = !class && part[0] == '['
		switch {
		case part[0] == '\\':
			to, ok := translateEscape(part, class)
			if !ok {
				return "", false
			}
			same = same && to != ""
			part = to
		case class:
			if part == "[" {
				part = `\[`
			}
			same = same && !(first && part == "]") // RE2 reads it as a member
		case opened:
		case part == ".":
			part = "[^" + ecmaNewline + "]"
		case part == "(?:", strings.HasPrefix(part, "(?<") && strings.HasSuffix(part, ">"):
		case strings.HasPrefix(part, "(?<"), strings.HasSuffix(part, ":"), part == "(?=", part == "(?!":
			same = same && len(part) == 1
		case strings.HasPrefix(part, "(?"):
			return "", false
		}
		b.WriteString(part)
	}
	if !same {
		return "", true
	}
	return b.String(), true
}

// translateEscape translates an escape of ECMA-262, inside or outside of a character class. It
// returns "" if RE2 has no equivalent, and false if ECMA-262 has no such escape.
func translateEscape(part string, class bool) (to string, ecma bool) {
	if len(part) == 1 {
		return "", true
	}
	switch c := part[1]; {
	case strings.HasPrefix(part, `\u`) && len(part) > 2:
		digits := strings.Trim(part[2:], "{}")
		if len(digits) == 4 && strings.ContainsAny(digits[:1], "dD") && digits[1] >= '8' {
			return "", true // half of a surrogate pair
		}
		return `\x{` + digits + `}`, true
	case c == 'x' && len(part) > 2, strings.IndexByte("dDwWtnvfr", c) >= 0, strings.HasPrefix(part, `\p{`), strings.HasPrefix(part, `\P{`):
		return part, true
	case c == 's' && class:
		return ecmaSpace, true
	case c == 's':
		return "[" + ecmaSpace + "]", true
	case c == 'S' && !class:
		return "[^" + ecmaSpace + "]", true
	case c == 'b' && class:
		return `\x08`, true
	case c == 'b', c == 'B' && !class:
		return part, true
	case strings.IndexByte(`SBckpPux0123456789_`, c) >= 0, c >= 0x80:
		return "", true
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return "", false
	}
	return part, true // an escaped punctuation mark
}
