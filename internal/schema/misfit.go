package schema

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"github.com/waza-isolate/waza/internal/text"
)

const (
	maxMisfits = 5   // listed per value by a [Checker], and per alternative schema
	maxLeaves  = 100 // found by a Checker
	maxMisfit  = 300 // bytes of one
	maxQuoted  = 100 // bytes of a pattern
)

// misfits lists up to most places where a value does not match its schema, and how many
// more there are. The order is deterministic, although the validator visits members of
// objects in random order.
func misfits(err *jsonschema.ValidationError, most int) []string {
	var listed []string
	all := leaves(err)
	for i, leaf := range all {
		if len(listed) == most {
			return append(listed, fmt.Sprintf("and %d more", len(all)-i))
		}
		s := describe(leaf)
		if at := pointer(leaf); at != "" {
			s = at + ": " + s
		}
		if s = text.Shorten(s, maxMisfit); !slices.Contains(listed, s) {
			listed = append(listed, s)
		}
	}
	return listed
}

// leaves returns the errors that are not mere groups of others, sorted by location.
func leaves(err *jsonschema.ValidationError) []*jsonschema.ValidationError {
	var all []*jsonschema.ValidationError
	var collect func(e *jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		switch e.ErrorKind.(type) {
		case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
			for _, cause := range e.Causes {
				collect(cause)
			}
			if len(e.Causes) > 0 {
				return
			}
		}
		all = append(all, e)
	}
	collect(err)
	slices.SortFunc(all, func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(
			slices.Compare(a.InstanceLocation, b.InstanceLocation),
			strings.Compare(a.SchemaURL, b.SchemaURL),
			slices.Compare(a.ErrorKind.KeywordPath(), b.ErrorKind.KeywordPath()),
		)
	})
	return all
}

// pointer returns the JSON pointer of the value that does not match.
func pointer(e *jsonschema.ValidationError) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var at strings.Builder
	for _, step := range e.InstanceLocation {
		at.WriteString("/" + escape.Replace(step))
	}
	return at.String()
}

func describe(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		return describeNone(e)
	case *kind.OneOf:
		if k.Subschemas == nil {
			return describeNone(e)
		}
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
	case *kind.Minimum:
		return bound(k.Got, "at least", k.Want)
	case *kind.Maximum:
		return bound(k.Got, "at most", k.Want)
	case *kind.ExclusiveMinimum:
		return bound(k.Got, "more than", k.Want)
	case *kind.ExclusiveMaximum:
		return bound(k.Got, "less than", k.Want)
	case *kind.MultipleOf:
		return bound(k.Got, "a multiple of", k.Want)
	}
	alone := jsonschema.ValidationError{ErrorKind: e.ErrorKind}
	return strings.TrimPrefix(alone.Error(), "at '': ")
}

// describeNone says why a value matches none of several schemas: by their types if it has
// none of these, otherwise by the first mismatch with each schema for its type.
func describeNone(e *jsonschema.ValidationError) string {
	var got string
	var types, reasons []string
	for _, cause := range e.Causes {
		first := leaves(cause)[0]
		if k, ok := first.ErrorKind.(*kind.Type); ok && len(first.InstanceLocation) == len(e.InstanceLocation) {
			got = k.Got
			types = append(types, k.Want...)
		} else if len(reasons) < maxMisfits {
			reasons = append(reasons, reason(e, first))
		}
	}
	if len(types) >= len(e.Causes) {
		return fmt.Sprintf("got %s, want %s", got, strings.Join(types, " or "))
	}
	if len(reasons) == 1 {
		return reasons[0]
	}
	return fmt.Sprintf("fits none of %d schemas: %s", len(e.Causes), strings.Join(reasons, "; or "))
}

// reason says why a value does not match one of several schemas.
func reason(e, first *jsonschema.ValidationError) string {
	var text string
	switch first.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		text = "fits none of several"
	default:
		text = describe(first)
	}
	if at := strings.TrimPrefix(pointer(first), pointer(e)); at != "" {
		text = at + ": " + text
	}
	return text
}

func bound(got *big.Rat, relation string, want *big.Rat) string {
	return fmt.Sprintf("got %s, want %s %s", decimal(got), relation, decimal(want))
}

// decimal formats a number with all its digits, which are finite for a JSON number.
func decimal(n *big.Rat) string {
	digits, _ := n.FloatPrec()
	return n.FloatString(digits)
}
