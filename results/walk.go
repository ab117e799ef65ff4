package results

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
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
	dec   *jsontext.Decoder
	leash *limitedReader
}

func newWalker(r io.Reader) *walker {
	l := &limitedReader{r: r, left: maxValue}
	return &walker{jsontext.NewDecoder(l, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)), l}
}

// limitedReader ends a text of which too much is read before a value of it ends.
type limitedReader struct {
	r    io.Reader
	left int
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("a value is longer than %d MiB", maxValue>>20)
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// token is the next of the text.
func (w *walker) token() (jsontext.Token, error) {
	token, err := w.dec.ReadToken()
	w.leash.left = maxValue
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = io.ErrUnexpectedEOF
	case err == nil && w.dec.StackDepth() > maxDepth:
		err = fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	return token, err
}

// ended reports whether nothing but white space is left.
func (w *walker) ended() bool {
	_, err := w.dec.ReadToken()
	return errors.Is(err, io.EOF)
}

// members reads an object: of the members named, by their functions, and each at most
// once. What is no object is skipped where it is null, and else an error.
func (w *walker) members(read map[string]func() error) error {
	if open, err := w.open('{'); !open {
		return err
	}
	seen := map[string]bool{}
	for {
		token, err := w.token()
		if err != nil || token.Kind() == '}' {
			return err
		}
		key := token.String()
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
}

// elements reads a list, each element by a function. Null is an empty one.
func (w *walker) elements(read func() error) error {
	if open, err := w.open('['); !open {
		return err
	}
	for w.dec.PeekKind() != ']' {
		if err := read(); err != nil {
			return err
		}
	}
	_, err := w.token()
	return err
}

// open begins an object or a list; not where null stands in its place.
func (w *walker) open(want jsontext.Kind) (bool, error) {
	token, err := w.token()
	switch {
	case err != nil || token.Kind() == 'n':
		return false, err
	case token.Kind() != want:
		return false, fmt.Errorf("%v stands where a %c begins", told(token), want)
	}
	return true, nil
}

// skip reads a value of any kind.
func (w *walker) skip() error {
	for depth := w.dec.StackDepth(); ; {
		if _, err := w.token(); err != nil || w.dec.StackDepth() == depth {
			return err
		}
	}
}

// text reads a name for a person to see, into to. What would control a terminal is left
// out, and so is what is more than a name.
func (w *walker) text(to *string) func() error {
	return func() error {
		token, err := w.token()
		if err != nil || token.Kind() == 'n' {
			return err
		}
		if token.Kind() != '"' {
			return fmt.Errorf("%v stands where a text should", told(token))
		}
		*to = name(token.String())
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
		if err != nil || token.Kind() == 'n' {
			return err
		}
		n, err := strconv.ParseInt(token.String(), 10, 64)
		if token.Kind() != '0' || err != nil || n < 0 || n > maxFigure {
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
		if err != nil || token.Kind() == 'n' {
			return err
		}
		f, err := strconv.ParseFloat(token.String(), 64)
		if token.Kind() != '0' || err != nil || !(f >= 0 && f <= maxFigure) {
			return fmt.Errorf("%v stands where an amount should", told(token))
		}
		*to = &f
		return nil
	}
}

func (w *walker) truth(to *bool) func() error {
	return func() error {
		token, err := w.token()
		if err != nil || token.Kind() == 'n' {
			return err
		}
		if token.Kind() != 't' && token.Kind() != 'f' {
			return fmt.Errorf("%v stands where true or false should", told(token))
		}
		*to = token.Bool()
		return nil
	}
}

// told is a token as an error names it.
func told(token jsontext.Token) string { return shorten(strconv.Quote(token.String()), 40) }
