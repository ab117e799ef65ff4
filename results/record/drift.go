package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// Drift returns a sentence for each difference between an old and a new cassette, in the order of sides:
// first for the sides of all tasks, and then by task.
func Drift(from, to *cassette.Cassette) (all []string) {
	tasks := map[string]*cassette.Cassette{}
	maps.Copy(tasks, from.Tasks)
	maps.Copy(tasks, to.Tasks)
	all = driftOf("", from, to)
	none := &cassette.Cassette{}
	for _, task := range slices.Sorted(maps.Keys(tasks)) {
		all = append(all, driftOf("task "+task+": ", cmp.Or(from.Tasks[task], none), cmp.Or(to.Tasks[task], none))...)
	}
	return all
}

func driftOf(where string, from, to *cassette.Cassette) (all []string) {
	none := &cassette.Side{}
	for _, kind := range cassette.Kinds() {
		sides := map[string]*cassette.Side{}
		maps.Copy(sides, from.Sides[kind])
		maps.Copy(sides, to.Sides[kind])
		for _, name := range slices.Sorted(maps.Keys(sides)) {
			for _, line := range driftOfSide(cmp.Or(from.Sides[kind][name], none), cmp.Or(to.Sides[kind][name], none)) {
				all = append(all, fmt.Sprintf("%s%s %s: %s", where, kind, name, line))
			}
		}
	}
	return all
}

// driftOfSide compares entries for the same requests in their order, since a repeated request may get another
// answer.
func driftOfSide(from, to *cassette.Side) (all []string) {
	before := map[string][]cassette.Entry{}
	for _, e := range from.Entries {
		if e.Answer != nil { // otherwise the entry was written by hand
			before[asked(e)] = append(before[asked(e)], e)
		}
	}
	say := func(n int, format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if n > 1 {
			line += fmt.Sprintf(", %d times", n)
		}
		all = append(all, line)
	}
	for _, e := range to.Entries {
		if e.Answer == nil {
			continue
		}
		left, old := times(e), before[asked(e)]
		for left > 0 && len(old) > 0 {
			n := min(left, times(old[0]))
			if string(old[0].Answer.Value) != string(e.Answer.Value) {
				say(n, "answered otherwise: %s: %s", describe(e), differenceOf(old[0].Answer.Value, e.Answer.Value))
			}
			if left -= n; n == times(old[0]) {
				old = old[1:]
			} else {
				old[0].Times -= n
			}
		}
		if before[asked(e)] = old; left > 0 {
			say(left, "asked anew: %s", describe(e))
		}
	}
	for _, e := range from.Entries {
		left := 0
		for _, old := range before[asked(e)] {
			left += times(old)
		}
		if left > 0 {
			delete(before, asked(e))
			say(left, "not asked any more: %s", describe(e))
		}
	}
	return all
}

// times returns the number of an entry's answers that are compared: one if the entry always answers.
func times(e cassette.Entry) int { return max(e.Times, 1) }

// maxDescribed is the maximum number of bytes shown of a request.
const maxDescribed = 200

func describe(e cassette.Entry) string {
	what := map[string]any{}
	for _, conditions := range []match.Matchers{e.Kind, e.Match} {
		for name, value := range conditions {
			given := jsontext.Decode(value)
			if matcher, ok := given.(map[string]any); ok && len(matcher) == 1 && matcher["equals"] != nil {
				given = matcher["equals"]
			}
			what[name] = given
		}
	}
	return text.Shorten(jsontext.Encode(what), maxDescribed)
}

// differenceOf returns the first place where two values differ.
func differenceOf(from, to []byte) string {
	want := match.Matchers{"answer": cassette.Matcher("equals", jsontext.Decode(from))}
	args, err := want.Compile()
	if err != nil {
		return "it is not the same"
	}
	fit := args.CheckValue(map[string]any{"answer": jsontext.Decode(to)})
	if len(fit.Differences) == 0 {
		return "it is written otherwise"
	}
	d := fit.Differences[0]
	return fmt.Sprintf("%s was %s, is %s", d.Path, d.Want, d.Got)
}
