package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Limits of a results.json that is read: it may be anybody's.
const (
	maxValue  = 64 << 20 // bytes of a value without parts, such as a string
	maxDepth  = 64       // of values in values
	maxListed = 1 << 20  // trials in all
	maxName   = 200      // characters of a name that are kept
	maxFigure = 1 << 40  // of a count, of a time in milliseconds
)

// walker reads a JSON text in place, and holds no more of it than a value.
type walker struct {
	dec   *json.Decoder
	leash *leash
	depth int
}

func newWalker(r io.Reader) *walker {
	l := &leash{r: r, left: maxValue}
	w := &walker{dec: json.NewDecoder(l), leash: l}
	w.dec.UseNumber()
	return w
}

// leash ends a text of which too much is read before a value of it ends.
type leash struct {
	r    io.Reader
	left int
}

func (l *leash) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("a value is longer than %d MiB", maxValue>>20)
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// token is the next of the text.
func (w *walker) token() (json.Token, error) {
	token, err := w.dec.Token()
	w.leash.left = maxValue
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return token, err
}

// members reads an object: of the members named, by their functions, and each at most
// once. What is no object is skipped where it is null, and else an error.
func (w *walker) members(read map[string]func() error) error {
	if open, err := w.open('{'); !open {
		return err
	}
	seen := map[string]bool{}
	for w.dec.More() {
		token, err := w.token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		member, wanted := read[key]
		switch {
		case !wanted:
			err = w.skip()
		case seen[key]:
			err = fmt.Errorf("%q stands twice in one object", key)
		default:
			seen[key] = true
			err = member()
		}
		if err != nil {
			return err
		}
	}
	return w.close()
}

// elements reads a list, each element by a function. Null is an empty one.
func (w *walker) elements(read func() error) error {
	if open, err := w.open('['); !open {
		return err
	}
	for w.dec.More() {
		if err := read(); err != nil {
			return err
		}
	}
	return w.close()
}

// open begins an object or a list; not where null stands in its place.
func (w *walker) open(want json.Delim) (bool, error) {
	token, err := w.token()
	switch {
	case err != nil || token == nil:
		return false, err
	case token != want:
		return false, fmt.Errorf("%v stands where a %v begins", told(token), want)
	case w.depth == maxDepth:
		return false, errDeep
	}
	w.depth++
	return true, nil
}

var errDeep = fmt.Errorf("values are nested more than %d deep", maxDepth)

func (w *walker) close() error {
	w.depth--
	_, err := w.token()
	return err
}

// skip reads a value of any kind.
func (w *walker) skip() error {
	for depth := w.depth; ; {
		token, err := w.token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		switch {
		case depth > maxDepth:
			return errDeep
		case depth == w.depth:
			return nil
		}
	}
}

// text reads a name for a person to see, into to. What would control a terminal is left
// out, and so is what is more than a name.
func (w *walker) text(to *string) func() error {
	return func() error {
		token, err := w.token()
		if err != nil || token == nil {
			return err
		}
		s, ok := token.(string)
		if !ok {
			return fmt.Errorf("%v stands where a text should", told(token))
		}
		*to = name(s)
		return nil
	}
}

// name is a stranger's text as far as it is one.
func name(s string) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
	return shorten(printable, maxName)
}

// count reads a whole number that is not negative, into to.
func (w *walker) count(to *int64) func() error {
	return func() error {
		token, err := w.token()
		if err != nil || token == nil {
			return err
		}
		number, _ := token.(json.Number)
		n, err := number.Int64()
		if err != nil || n < 0 || n > maxFigure {
			return fmt.Errorf("%v stands where a count should", told(token))
		}
		*to = n
		return nil
	}
}

// amount reads a number that is not negative, into to.
func (w *walker) amount(to **float64) func() error {
	return func() error {
		token, err := w.token()
		if err != nil || token == nil {
			return err
		}
		number, _ := token.(json.Number)
		f, err := number.Float64()
		if err != nil || !(f >= 0 && f <= maxFigure) {
			return fmt.Errorf("%v stands where an amount should", told(token))
		}
		*to = &f
		return nil
	}
}

func (w *walker) truth(to *bool) func() error {
	return func() error {
		token, err := w.token()
		if err != nil || token == nil {
			return err
		}
		truth, ok := token.(bool)
		if !ok {
			return fmt.Errorf("%v stands where true or false should", told(token))
		}
		*to = truth
		return nil
	}
}

// told is a token as an error names it.
func told(token json.Token) string { return shorten(fmt.Sprintf("%q", fmt.Sprint(token)), 40) }
