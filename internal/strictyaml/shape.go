package strictyaml

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// shape is what a struct's tags define about a mapping.
type shape struct {
	names  []string // keys in the order of the fields
	fields map[string]field
	// lenient reports that unknown keys can be ignored with a warning, and keys without a
	// value are treated as absent.
	lenient bool
}

type field struct {
	index   []int
	limits  Limits
	mapping reflect.Type // the struct that its mapping sets; nil if it takes none
}

// Limits are what the tags of a struct field define about its value. They are exported to
// describe the same type by other means, such as a JSON Schema.
type Limits struct {
	Required       bool     // must be present and not empty
	Zero           bool     // 0 is treated as absent
	Enum           []string // allowed values of a string; empty for any
	Min, Max, Over *float64 // limits of a number; nil for none
}

func shapeOf(t reflect.Type) shape {
	s := shape{fields: map[string]field{}}
	for _, f := range reflect.VisibleFields(t) {
		if f.Name == "_" {
			s.lenient = s.lenient || f.Tag.Get("unknown") == "warn"
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "" || name == "-" {
			continue
		}
		s.names = append(s.names, name)
		s.fields[name] = field{f.Index, LimitsOf(f), mappingOf(f.Type)}
	}
	return s
}

// mappingOf returns the struct that a mapping for a field of type t sets, or nil.
func mappingOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	return t
}

// Given returns the keys of the non-zero fields of a struct, in order of the fields.
func Given(v any) (names []string) {
	value := reflect.ValueOf(v)
	known := shapeOf(value.Type())
	for _, name := range known.names {
		if !value.FieldByIndex(known.fields[name].index).IsZero() {
			names = append(names, name)
		}
	}
	return names
}

// LimitsOf returns the limits in the tags of f.
func LimitsOf(f reflect.StructField) Limits {
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	optional := slices.ContainsFunc(strings.Split(options, ","), func(o string) bool {
		return o == "omitempty" || o == "omitzero"
	})
	return Limits{
		Required: !optional,
		Zero:     f.Tag.Get("zero") == "unset",
		Enum:     strings.Fields(f.Tag.Get("enum")),
		Min:      bound(f, "min"),
		Max:      bound(f, "max"),
		Over:     bound(f, "over"),
	}
}

// bound returns the number in a tag, or nil. An invalid number is treated as absent; a test
// of the type would detect it.
func bound(f reflect.StructField, tag string) *float64 {
	number, err := strconv.ParseFloat(f.Tag.Get(tag), 64)
	if err != nil {
		return nil
	}
	return &number
}

// ofElements returns the limits for the elements of a list with limits l.
func (l Limits) ofElements() Limits {
	l.Required = false
	return l
}

// checkString returns what is wrong with s at path, or "".
func (l Limits) checkString(path Path, s string) (message string) {
	switch {
	case len(l.Enum) > 0 && !slices.Contains(l.Enum, s):
		wrong := fmt.Sprintf("%s must be %s, not %q", path, orList(l.Enum), s)
		if near := Nearest(s, l.Enum); near != "" {
			wrong += fmt.Sprintf("; did you mean %q?", near)
		}
		return wrong
	case l.Required && s == "":
		return fmt.Sprintf("%s must not be empty", path)
	}
	return ""
}

// checkNumber returns what n should be, or "".
func (l Limits) checkNumber(n float64) string {
	switch {
	case l.Min != nil && n < *l.Min:
		return "at least " + decimal(*l.Min)
	case l.Max != nil && n > *l.Max:
		return "at most " + decimal(*l.Max)
	case l.Over != nil && n <= *l.Over:
		return "more than " + decimal(*l.Over)
	}
	return ""
}

// decimal writes a number without an exponent.
func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// orList joins words as in "a, b or c".
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Suggest returns a suggestion for an unknown word: `did you mean "x"?` if one in known is
// similar, otherwise the list of known words; "" if known is empty.
func Suggest(word string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	if near := Nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	sorted := slices.Sorted(slices.Values(known))
	return "known here: " + strings.Join(sorted, ", ")
}

// Nearest returns the word in known that is most similar to word, the first of several by their
// letters, or else the only one that begins with it, or "".
func Nearest(word string, known []string) string {
	if len(word) > 64 {
		return ""
	}
	best, bestDistance := "", 1+max(1, len(word)/3)
	for _, candidate := range known {
		if strings.HasPrefix(candidate, "not_") && !strings.HasPrefix(word, "n") {
			continue // the opposite of the intended word
		}
		if d := distance(fold(word), fold(candidate)); d < bestDistance || d == bestDistance && best != "" && candidate < best {
			best, bestDistance = candidate, d
		}
	}
	if best != "" || len(word) < 3 {
		return best
	}
	begins := slices.DeleteFunc(slices.Clone(known), func(candidate string) bool { return !strings.HasPrefix(fold(candidate), fold(word)) })
	if len(begins) == 1 {
		return begins[0]
	}
	return ""
}

// isNearMiss reports whether a key is a misspelling of one in known: up to two characters
// differ after fold.
func isNearMiss(key string, known []string) bool {
	near := Nearest(key, known)
	return near != "" && distance(fold(key), fold(near)) <= 2
}

// fold removes insignificant variations: maxWorkers, max-workers.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance returns the edit distance of two strings: insertions, deletions, substitutions
// and transpositions (optimal string alignment).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range t {
		rows[0][j+1] = j + 1
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			change := 1
			if s[i-1] == t[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(s)][len(t)]
}
