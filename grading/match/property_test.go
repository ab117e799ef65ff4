package match

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/waza-isolate/waza/internal/jsontext"
)

var modes = []Mode{Effects, Superset, Unordered, InOrder, Exact, Subset}

func drawMode(t *rapid.T) Mode { return rapid.SampledFrom(modes).Draw(t, "mode") }

// drawArgs draws expected arguments that calls often satisfy in part.
func drawArgs(t *rapid.T) *Args {
	config := rapid.SampledFrom([]string{
		``, ``,
		`{"values":{"x":1}}`,
		`{"values":{"x":0,"y":1}}`,
		`{"values":{"x":{"any_of":[0,1]},"y":{"absent_or":0}}}`,
		`{"match":"within","values":{"x":1,"y":1}}`,
		`{"match":"exact","values":{"x":1.0}}`,
		`{"match":"exact","values":{}}`,
	}).Draw(t, "args")
	if config == "" {
		return nil
	}
	var c ArgsConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		t.Fatal(err)
	}
	args, err := c.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return args
}

func drawTarget(t *rapid.T) Target {
	tool, err := CompileTool(rapid.SampledFrom([]string{"a", "b", "/[ab]/", "c"}).Draw(t, "tool"))
	if err != nil {
		t.Fatal(err)
	}
	return Target{Server: rapid.SampledFrom([]string{"", "", "s"}).Draw(t, "server"), Tool: tool, Args: drawArgs(t)}
}

func drawExpected(t *rapid.T) []Expected {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Expected {
		e := Expected{Min: rapid.IntRange(0, 2).Draw(t, "min")}
		e.Max = e.Min + rapid.IntRange(0, 2).Draw(t, "more")
		if rapid.IntRange(0, 4).Draw(t, "unlimited") == 0 {
			e.Max = Unlimited
		}
		for range rapid.IntRange(1, 2).Draw(t, "targets") {
			e.Targets = append(e.Targets, drawTarget(t))
		}
		return e
	}), 0, 3).Draw(t, "expected")
}

func drawCall(t *rapid.T) Call {
	c := Call{
		Server: rapid.SampledFrom([]string{"s", "t"}).Draw(t, "server"),
		Tool:   rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "tool"),
		OK:     rapid.IntRange(0, 5).Draw(t, "ok") > 0,
		Arguments: json.RawMessage(rapid.SampledFrom([]string{
			``, `{}`, `{"x":1}`, `{"x":0}`, `{"x":1,"y":1}`, `{"y":1,"x":1.0}`, `{"x":0,"y":0}`, `[1]`,
		}).Draw(t, "arguments")),
	}
	c.ReadOnly = rapid.Bool().Draw(t, "hint")
	c.Unanswered = !c.OK && rapid.Bool().Draw(t, "unanswered")
	return c
}

func drawCalls(t *rapid.T, most int) []Call {
	return rapid.SliceOfN(rapid.Custom(drawCall), 0, most).Draw(t, "calls")
}

// score is a weighted mean of the parts that apply.
func score(s Scores, selection, params float64) float64 {
	if s.Params == nil {
		return s.Selection
	}
	return (selection*s.Selection + params**s.Params) / (selection + params)
}

func drawWeights(t *rapid.T) (float64, float64) {
	weight := rapid.Float64Range(0.05, 1)
	return weight.Draw(t, "selection"), weight.Draw(t, "params")
}

// total is what Match maximizes, read from its result; the fields count in order.
type total struct{ filled, share, tooMuch, optional int64 }

func (r Result) total() total {
	sum := total{tooMuch: -int64(len(r.TooMuch))}
	for _, p := range r.Pairs {
		if p.Optional {
			sum.optional++
			continue
		}
		sum.filled++
		sum.share += shareOf(p.Fit)
	}
	return sum
}

func (a total) less(b total) bool {
	return slices.Compare(
		[]int64{a.filled, a.share, a.tooMuch, a.optional},
		[]int64{b.filled, b.share, b.tooMuch, b.optional}) < 0
}

// exhaustive tries all ways to pair.
type exhaustive struct {
	mode  Mode
	calls []Call
	units []unit
	used  []bool
	best  total
	found bool
}

// unit is one slot.
type unit struct {
	expected Expected
	optional bool
}

func bruteForce(mode Mode, expected []Expected, calls []Call) total {
	x := exhaustive{mode: mode}
	for _, c := range calls {
		if c.OK || c.Unanswered {
			x.calls = append(x.calls, c)
		}
	}
	for _, e := range expected {
		least, most := e.Min, e.Max
		if mode == Subset {
			least = 0
		}
		if e.Max == Unlimited {
			most = least + len(x.calls)
		}
		for i := range most {
			x.units = append(x.units, unit{e, i >= least})
		}
	}
	x.used = make([]bool, len(x.units))
	x.try(0, 0, total{})
	return x.best
}

// try iterates over the calls; from is the first slot that the order allows.
func (x *exhaustive) try(call, from int, sum total) {
	if call == len(x.calls) {
		if !x.found || x.best.less(sum) {
			x.best, x.found = sum, true
		}
		return
	}
	beside := sum
	if x.mode.unmatchedWeight(x.calls[call]) == tooMuch {
		beside.tooMuch--
	}
	x.try(call+1, from, beside)
	for i := from; i < len(x.units); i++ {
		with, ok := x.units[i].take(x.calls[call], sum)
		if x.used[i] || !ok {
			continue
		}
		x.used[i] = true
		if x.mode.ordered() {
			x.try(call+1, i+1, with)
		} else {
			x.try(call+1, 0, with)
		}
		x.used[i] = false
	}
}

func (u unit) take(c Call, sum total) (total, bool) {
	share := int64(none)
	for _, target := range u.expected.Targets {
		if target.Names(c.Server, c.Tool) {
			share = max(share, shareOf(target.Args.Check(c.Arguments)))
		}
	}
	switch {
	case !c.OK:
		return sum, share == whole
	case u.optional:
		sum.optional++
		return sum, share == whole
	}
	sum.filled++
	sum.share += share
	return sum, share != none
}

func TestMatchIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode, expected, calls := drawMode(t), drawExpected(t), drawCalls(t, 4)
		r := Match(mode, expected, calls)
		if got, want := r.total(), bruteForce(mode, expected, calls); got != want {
			t.Fatalf("%+v is worth %+v, and the best %+v", r, got, want)
		}
		for e := range expected {
			if !keepsTo(mode, e, expected[e], r) {
				t.Fatalf("%+v pairs what it may not", r)
			}
		}
	})
}

// keepsTo reports whether a result pairs no more with expectation e than it may, and
// nothing with an optional slot that differs.
func keepsTo(mode Mode, e int, expected Expected, r Result) bool {
	required, optional := 0, 0
	for _, p := range r.Pairs {
		switch {
		case p.Expected != e:
		case !p.Optional:
			required++
		case p.Full():
			optional++
		default:
			return false
		}
	}
	return (required == 0 || mode != Subset) && required <= expected.Min &&
		(expected.Max == Unlimited || required+optional <= expected.Max)
}

// contents is what a result says, by what the calls are and not by their places.
func contents(expected []Expected, calls []Call, r Result) string {
	call := func(i int) string {
		c := calls[i]
		return fmt.Sprint(c.Server, c.Tool, jsontext.Form(decode(c.Arguments)), c.OK, c.Unanswered, c.ReadOnly)
	}
	var all []string
	for _, p := range r.Pairs {
		all = append(all, fmt.Sprint("pair ", expected[p.Expected].key(), p.Optional, call(p.Call), shareOf(p.Fit)))
	}
	for _, m := range r.Missing {
		all = append(all, fmt.Sprint("missing ", expected[m.Expected].key(), m.Count))
	}
	for _, b := range r.TooMuch {
		all = append(all, fmt.Sprint("too much ", call(b.Call)))
	}
	slices.Sort(all)
	s := r.Scores()
	text := fmt.Sprintln(all, s.Recall, s.Precision, s.Selection)
	if s.Params != nil {
		text += fmt.Sprint(*s.Params)
	}
	return text
}

func TestOrderOfCallsAndExpectationsDecidesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode, expected, calls := drawMode(t), drawExpected(t), drawCalls(t, 6)
		first := contents(expected, calls, Match(mode, expected, calls))
		if !mode.ordered() {
			expected = rapid.Permutation(expected).Draw(t, "expected again")
			calls = rapid.Permutation(calls).Draw(t, "calls again")
		}
		for i, e := range expected {
			expected[i].Targets = rapid.Permutation(e.Targets).Draw(t, "targets")
		}
		if again := contents(expected, calls, Match(mode, expected, calls)); again != first {
			t.Fatalf("first\n%s\nthen\n%s", first, again)
		}
	})
}

// More of the same tool, or of another, is not better where it is too much.
func TestACallTooMuchRaisesNoScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode, expected, calls := drawMode(t), drawExpected(t), drawCalls(t, 6)
		extra := drawCall(t)
		extra.OK, extra.Unanswered = true, false
		at := rapid.IntRange(0, len(calls)).Draw(t, "at")
		more := slices.Insert(slices.Clone(calls), at, extra)
		after := Match(mode, expected, more)
		if !slices.ContainsFunc(after.TooMuch, func(b Unmatched) bool { return b.Call == at }) {
			t.Skip("it is allowed")
		}
		selection, params := drawWeights(t)
		before := score(Match(mode, expected, calls).Scores(), selection, params)
		if now := score(after.Scores(), selection, params); now > before {
			t.Fatalf("%v became %v", before, now)
		}
	})
}

// standsAlone reports whether no other call could take the place of a pair's call.
func standsAlone(expected []Expected, calls []Call, r Result, p Pair) bool {
	for i, c := range calls {
		fills := slices.ContainsFunc(expected[p.Expected].Targets, func(target Target) bool {
			return target.Names(c.Server, c.Tool) && (!p.Optional || target.Args.Check(c.Arguments).Full())
		})
		beside := !slices.ContainsFunc(r.Pairs, func(other Pair) bool {
			return other.Call == i && other.Expected == p.Expected && other.Optional == p.Optional
		})
		if (c.OK || c.Unanswered) && fills && beside {
			return false
		}
	}
	return true
}

// newlyMatched reports whether calls are matched after the one at gone was removed
// away, and did not before.
func newlyMatched(before, after Result, gone int) bool {
	return slices.ContainsFunc(after.Pairs, func(p Pair) bool {
		was := p.Call
		if was >= gone {
			was++
		}
		return !slices.ContainsFunc(before.Pairs, func(q Pair) bool { return q.Call == was })
	})
}

// With order, a call that goes makes room for others: they stand in for it too, and
// those that were matched may do better in their arguments elsewhere. There the
// property is one of the selection.
func TestAMatchedCallLessRaisesNoScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode, expected, calls := drawMode(t), drawExpected(t), drawCalls(t, 6)
		before := Match(mode, expected, calls)
		if len(before.Pairs) == 0 {
			t.Skip("nothing is matched")
		}
		gone := rapid.SampledFrom(before.Pairs).Draw(t, "gone")
		if !standsAlone(expected, calls, before, gone) {
			t.Skip("another call can stand in")
		}
		after := Match(mode, expected, slices.Delete(slices.Clone(calls), gone.Call, gone.Call+1))
		selection, params := drawWeights(t)
		if mode.ordered() {
			params = 0
			if newlyMatched(before, after, gone.Call) {
				t.Skip("another call stands in")
			}
		}
		was, is := score(before.Scores(), selection, params), score(after.Scores(), selection, params)
		if is > was {
			t.Fatalf("%v became %v", was, is)
		}
	})
}

func TestOrderOfKeysDecidesNothing(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	object := func(t *rapid.T, values map[string]int, label string) json.RawMessage {
		text := ""
		for _, name := range rapid.Permutation(names).Draw(t, label) {
			if value, ok := values[name]; ok {
				text += fmt.Sprintf(`,%q:{"v":%d,"w":0}`, name, value)
			}
		}
		return json.RawMessage("{" + text[min(1, len(text)):] + "}")
	}
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.MapOf(rapid.SampledFrom(names), rapid.IntRange(0, 1))
		want, got := drawn.Draw(t, "want"), drawn.Draw(t, "got")
		rule := rapid.SampledFrom([]string{"contains", "within", "exact"}).Draw(t, "rule")
		check := func(label string) string {
			var c ArgsConfig
			if err := json.Unmarshal(object(t, want, "want "+label), &c.Values); err != nil {
				t.Fatal(err)
			}
			c.Match = rule
			args, err := c.Compile()
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(args.Check(object(t, got, "got "+label)), args)
		}
		if first, again := check("first"), check("again"); first != again {
			t.Fatalf("%s, then %s", first, again)
		}
	})
}
