package record

import (
	"fmt"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// Drift returns what a new cassette has otherwise than an old one, a sentence for each difference, in the
// order of sides: for all tasks, and then by task.
func Drift(from, to *cassette.Cassette) (all []string) {
	tasks := maps.Clone(from.Tasks)
	if tasks == nil {
		tasks = map[string]*cassette.Cassette{}
	}
	maps.Copy(tasks, to.Tasks)
	all = driftOf("", from, to)
	none := &cassette.Cassette{}
	for _, task := range slices.Sorted(maps.Keys(tasks)) {
		before, after := none, none
		if from.Tasks[task] != nil {
			before = from.Tasks[task]
		}
		if to.Tasks[task] != nil {
			after = to.Tasks[task]
		}
		all = append(all, driftOf("task "+task+": ", before, after)...)
	}
	return all
}

func driftOf(where string, from, to *cassette.Cassette) (all []string) {
	for _, kind := range cassette.Kinds() {
		names := map[string]bool{}
		for _, c := range []*cassette.Cassette{from, to} {
			for name := range c.Sides[kind] {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			before, after := sideOf(from, kind, name), sideOf(to, kind, name)
			for _, line := range driftOfSide(before, after) {
				all = append(all, fmt.Sprintf("%s%s %s: %s", where, kind, name, line))
			}
		}
	}
	return all
}

func sideOf(c *cassette.Cassette, kind cassette.Kind, name string) *cassette.Side {
	if side := c.Sides[kind][name]; side != nil {
		return side
	}
	return &cassette.Side{}
}

// driftOfSide compares the entries for the same requests in their order, since repeats may be answered
// otherwise.
func driftOfSide(from, to *cassette.Side) (all []string) {
	before := map[string][]cassette.Entry{}
	for _, e := range from.Entries {
		before[asked(e)] = append(before[asked(e)], each(e)...)
	}
	for _, e := range to.Entries {
		for _, one := range each(e) {
			old := before[asked(e)]
			if len(old) == 0 {
				all = append(all, "asked anew: "+describe(e))
				continue
			}
			if before[asked(e)] = old[1:]; string(old[0].Answer.Value) != string(one.Answer.Value) {
				all = append(all, fmt.Sprintf("answered otherwise: %s: %s", describe(e), differenceOf(old[0].Answer.Value, one.Answer.Value)))
			}
		}
	}
	for _, e := range from.Entries {
		if left := len(before[asked(e)]); left > 0 {
			delete(before, asked(e))
			line := "not asked any more: " + describe(e)
			if left > 1 {
				line += fmt.Sprintf(", %d times", left)
			}
			all = append(all, line)
		}
	}
	return all
}

// each returns an entry for each of its answers, one for an answer that is always given.
func each(e cassette.Entry) []cassette.Entry {
	if e.Answer == nil {
		return nil // written by hand
	}
	return slices.Repeat([]cassette.Entry{e}, max(e.Times, 1))
}

// maxDescribed is how many bytes of what is asked are shown.
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
