package results

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waza-isolate/waza/evidence"
)

// Limits for reading a results.json, which is untrusted.
const (
	maxValue  = 64 << 20 // bytes of a single value, such as a string
	maxListed = 1 << 20  // total number of trials
	maxName   = 200      // maximum length of a name, in characters
	maxFigure = 1 << 40  // maximum of a count, or of a time in milliseconds
	maxHead   = 4 << 20  // bytes before the member tasks
)

// lenient allows duplicate names, for JSON of other programs.
var lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// name returns untrusted text without non-printable characters, cut to the maximum length of a name.
func name(s string) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
	return shorten(printable, maxName)
}

func shorten(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	return string(runes[:width-1]) + "…"
}

// limitedReader ends the input if a single value is too long.
type limitedReader struct {
	r    io.Reader
	read int64
	dec  *jsontext.Decoder
}

var (
	errLong = fmt.Errorf("a value is longer than %d MiB", maxValue>>20)
	errMany = fmt.Errorf("more than %d tasks and trials", maxListed)
)

func (l *limitedReader) Read(p []byte) (int, error) {
	left := maxValue - (l.read - l.dec.InputOffset())
	if left <= 0 {
		return 0, errLong
	}
	n, err := l.r.Read(p[:min(int64(len(p)), left)])
	l.read += int64(n)
	return n, err
}

// ReadOutline reads a results.json one value at a time. The size of the result is limited,
// and missing values are left empty. It returns an error if the input is not a
// results.json.
func ReadOutline(r io.Reader) (Outline, error) {
	o, err := readOutline(r)
	if err == nil {
		err = o.settle()
	}
	if err != nil {
		return Outline{}, fmt.Errorf("this is not the results.json of a run: %w", err)
	}
	return o, nil
}

func readOutline(r io.Reader) (o Outline, err error) {
	in := &limitedReader{r: r}
	in.dec = jsontext.NewDecoder(in, lenient)
	hasTasks, listed := false, 0
	count := func() error {
		if listed++; listed > maxListed {
			return errMany
		}
		return errors.ErrUnsupported
	}
	err = jsonv2.UnmarshalDecode(in.dec, &o, lenient, jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(
		jsonv2.UnmarshalFromFunc(readName),
		jsonv2.UnmarshalFromFunc(func(*jsontext.Decoder, *[]TaskOutline) error { hasTasks = true; return errors.ErrUnsupported }),
		jsonv2.UnmarshalFromFunc(func(*jsontext.Decoder, *TaskOutline) error { return count() }),
		jsonv2.UnmarshalFromFunc(func(*jsontext.Decoder, *TrialOutline) error { return count() }),
	)))
	var other *jsonv2.SemanticError
	switch {
	case errors.Is(err, errLong):
		return o, errLong
	case errors.Is(err, errMany):
		return o, errMany
	case errors.As(err, &other):
		value := shorten(cmp.Or(string(other.JSONValue), other.JSONKind.String()), 40)
		return o, fmt.Errorf("found %s instead of %s at %s/", value, wanted(other.GoType), other.JSONPointer)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return o, io.ErrUnexpectedEOF
	case err != nil:
		return o, err
	case !hasTasks:
		return o, errors.New("it names no tasks")
	}
	if _, err := in.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return o, errors.New("unexpected data after its end")
	}
	return o, nil
}

// readName reads a text as a name.
func readName(dec *jsontext.Decoder, s *string) error {
	if dec.PeekKind() != '"' {
		return errors.ErrUnsupported
	}
	text, err := dec.ReadToken()
	if err == nil {
		*s = name(text.String())
	}
	return err
}

// wanted describes the values that can be decoded into a type.
func wanted(t reflect.Type) string {
	if t == nil {
		return "another value"
	}
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int64:
		return "a count"
	case reflect.Float64:
		return "an amount"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// settle checks an outline that was read from a file, and completes the outcomes of its
// trials.
func (o *Outline) settle() error {
	known := map[string]bool{}
	for _, t := range o.Tasks {
		switch {
		case t.ID == "":
			return errors.New("a task has no test_id")
		case known[t.ID]:
			return fmt.Errorf("two tasks are called %s", t.ID)
		}
		known[t.ID] = true
		for i := range t.Trials {
			if err := t.Trials[i].settle(); err != nil {
				return err
			}
		}
	}
	return countable(o.TimeoutSec)
}

func (t *TrialOutline) settle() error {
	err := countable(t.DurationMS, t.MCPCalls)
	if m := t.Models(); m != nil && err == nil {
		err = countable(m.InputTokens, m.OutputTokens)
		if m.Cost != nil && !(*m.Cost >= 0 && *m.Cost <= maxFigure) {
			err = fmt.Errorf("%g is not an amount", *m.Cost)
		}
	}
	if err != nil {
		return err
	}
	if t.Outcome, err = classOf(t.Outcome, t.Status); err != nil {
		return err
	}
	switch end := t.Attack.Result; end {
	case "", evidence.AttackSucceeded, evidence.AttackResisted, evidence.AttackNotDelivered, evidence.AttackUnknown:
		return nil
	default:
		return fmt.Errorf("%q is not the outcome of an attack", name(string(end)))
	}
}

// countable returns an error for numbers that cannot be counts.
func countable(all ...int64) error {
	for _, n := range all {
		if n < 0 || n > maxFigure {
			return fmt.Errorf("%d is not a count", n)
		}
	}
	return nil
}

// classOf returns how a trial ended: its outcome or, in a file of upstream waza, the class for its status.
func classOf(outcome evidence.Class, status Status) (evidence.Class, error) {
	if slices.Contains(evidence.Classes(), outcome) {
		return outcome, nil
	}
	if outcome == "" {
		switch status {
		case StatusPassed:
			return evidence.ClassPass, nil
		case StatusFailed:
			return evidence.ClassFail, nil
		case StatusError:
			return evidence.ClassError, nil
		}
	}
	return "", fmt.Errorf("%q is not the outcome of a trial", name(cmp.Or(string(outcome), string(status))))
}

// ReadHead reads the start of a results.json written by waza-isolate: the summary of the
// run without its servers and tasks.
func ReadHead(r io.Reader) (head Results, err error) {
	err = jsonv2.UnmarshalDecode(jsontext.NewDecoder(io.LimitReader(r, maxHead), lenient), &head, lenient, jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(
		jsonv2.UnmarshalFromFunc(func(*jsontext.Decoder, *TriggerMetrics) error { return errBody }),
		jsonv2.UnmarshalFromFunc(func(*jsontext.Decoder, *[]ServerCard) error { return errBody }),
		jsonv2.UnmarshalFromFunc(func(*jsontext.Decoder, *[]Task) error { return errBody }),
	)))
	if err == nil || errors.Is(err, errBody) {
		err = nil
		if head.EvalName == "" {
			err = errors.New("it names no eval")
		}
	}
	if err != nil {
		return Results{}, fmt.Errorf("%w: %w", errNoHead, err)
	}
	return head, nil
}

var (
	errNoHead = errors.New("this is not the results.json of a run")
	errBody   = errors.New("the head of results.json has ended")
)
