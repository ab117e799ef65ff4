package grading_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"pgregory.net/rapid"
)

// drawnCall is one call of a drawn trial.
type drawnCall struct {
	tool, arguments, answer string
}

func drawCall(t *rapid.T) drawnCall {
	return drawnCall{
		tool:      rapid.SampledFrom([]string{"get_issue", "close_issue", "sync"}).Draw(t, "tool"),
		arguments: rapid.SampledFrom([]string{`{"number":1,"deep":{"x":1,"y":2}}`, `{"number":2}`, `{}`}).Draw(t, "arguments"),
		answer:    rapid.SampledFrom([]string{answered, answered, answered, toolError, ""}).Draw(t, "answer"),
	}
}

// turns are sequential turns, each of parallel calls.
type turns [][]drawnCall

func drawTurns(t *rapid.T) turns {
	return rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(drawCall), 1, 3), 0, 4).Draw(t, "turns")
}

// scene begins with a tool list: one tool reads, one writes, and one does not declare either.
func (all turns) scene() scene {
	frames := listing(readTool + "," + writeTool + "," + mutedTool)
	for i, turn := range all {
		var answers []evidence.Frame
		for j, c := range turn {
			pair := call("github", fmt.Sprint(i*10+j), c.tool, c.arguments, c.answer)
			frames, answers = append(frames, pair[0]), append(answers, pair[1:]...)
		}
		frames = append(frames, answers...)
	}
	return trialOf(frames)
}

// calls returns all calls, in the order of their numbers.
func (all turns) calls() []drawnCall { return slices.Concat(all...) }

// oneByOne returns the same calls, each in its own turn.
func oneByOne(calls []drawnCall) turns {
	var all turns
	for _, c := range calls {
		all = append(all, []drawnCall{c})
	}
	return all
}

var modes = []string{"effects", "superset", "unordered", "in_order", "exact", "subset"}

// drawExpected draws entries and a mode.
func drawExpected(t *rapid.T, modes []string) map[string]any {
	entry := rapid.Custom(func(t *rapid.T) map[string]any {
		e := map[string]any{"tool": rapid.SampledFrom([]string{"get_issue", "close_issue", "sync", "/.*_issue/"}).Draw(t, "expected")}
		if rapid.Bool().Draw(t, "with arguments") {
			how := rapid.SampledFrom([]string{"contains", "within", "exact"}).Draw(t, "how")
			e["args"] = map[string]any{"match": how, "values": map[string]any{"number": 1, "deep": map[string]any{"x": 1, "y": 3}}}
		}
		switch rapid.IntRange(0, 3).Draw(t, "count") {
		case 0:
			e["count"] = map[string]any{"min": rapid.IntRange(0, 2).Draw(t, "min")}
		case 1:
			e["count"] = map[string]any{"min": 1, "max": rapid.IntRange(1, 3).Draw(t, "max")}
		}
		return e
	})
	return map[string]any{
		"match": rapid.SampledFrom(modes).Draw(t, "mode"), "expect_tools_used": rapid.SliceOfN(entry, 1, 3).Draw(t, "entries"),
		"max_tool_errors": 1,
	}
}

// graded is a verdict, and what of its details the properties speak of.
type graded struct {
	evidence.Verdict
	matched, extras []int   // calls
	selection       float64 // part of the score
}

func grade(t *testing.T, s scene, config map[string]any) graded {
	t.Helper()
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	v, err := grading.GradeFrames(s.trial, s.frames, grader("mcp_compliance", string(data)))
	if err != nil {
		t.Fatal(err)
	}
	g := graded{Verdict: v}
	if g.Result == cannotSay {
		t.Fatalf("%s: %s", data, g.Feedback)
	}
	var details struct {
		Matched []struct{ Call int }
		Extras  []int
		Parts   struct{ Selection struct{ Score float64 } }
	}
	data, err = json.Marshal(g.Details)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &details); err != nil {
		t.Fatal(err)
	}
	for _, m := range details.Matched {
		g.matched = append(g.matched, m.Call)
	}
	g.extras, g.selection = details.Extras, details.Parts.Selection.Score
	return g
}

func (g graded) same(other graded) bool {
	return g.Result == other.Result && g.Score == other.Score && len(g.matched) == len(other.matched) && len(g.extras) == len(other.extras)
}

func TestOrderOfWhatIsExpectedDecidesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, config := drawTurns(r).scene(), drawExpected(r, []string{"effects", "superset", "unordered", "subset"})
		first := grade(t, s, config)
		config["expect_tools_used"] = rapid.Permutation(config["expect_tools_used"].([]map[string]any)).Draw(r, "order")
		if second := grade(t, s, config); !first.same(second) {
			r.Errorf("%v: %s", config, second.Feedback)
		}
	})
}

func TestOrderOfParallelCallsDecidesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		all, config := drawTurns(r), drawExpected(r, modes)
		first := grade(t, all.scene(), config)
		for i, turn := range all {
			all[i] = rapid.Permutation(turn).Draw(r, "order")
		}
		if second := grade(t, all.scene(), config); !first.same(second) {
			r.Errorf("%v: %v: %s\n%v: %s", config, first.Score, first.Feedback, second.Score, second.Feedback)
		}
	})
}

func TestOrderOfKeysDecidesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		all, config := drawTurns(r), drawExpected(r, modes)
		first := grade(t, all.scene(), config)
		for _, turn := range all {
			for i, c := range turn {
				if c.arguments == `{"number":1,"deep":{"x":1,"y":2}}` {
					turn[i].arguments = ` {"deep": {"y":2, "x":1.0}, "number":1}`
				}
			}
		}
		if second := grade(t, all.scene(), config); !first.same(second) {
			r.Errorf("%v: %s", config, second.Feedback)
		}
	})
}

func TestOneMoreThatIsNotAllowedRaisesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		calls, config := drawTurns(r).calls(), drawExpected(r, modes)
		before := grade(t, oneByOne(calls).scene(), config)
		extra := drawCall(r)
		extra.answer = answered
		at := rapid.IntRange(0, len(calls)).Draw(r, "place")
		after := grade(t, oneByOne(slices.Insert(slices.Clone(calls), at, extra)).scene(), config)
		if slices.Contains(after.extras, at+1) && (after.Score > before.Score || after.Result == pass && before.Result != pass) {
			r.Errorf("%v, %v at %d: %v, then %v: %s", config, extra, at, before.Score, after.Score, after.Feedback)
		}
	})
}

// Only that of params may rise: with fewer calls, the remaining ones may be paired with
// expectations that their arguments fit better.
func TestOneLessThatNoOtherStandsInForRaisesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		calls, config := drawTurns(r).calls(), drawExpected(r, modes)
		before := grade(t, oneByOne(calls).scene(), config)
		for _, number := range before.matched {
			after := grade(t, oneByOne(slices.Delete(slices.Clone(calls), number-1, number)).scene(), config)
			alone := len(after.matched) < len(before.matched) && len(after.extras) >= len(before.extras) // an unanswered call may stand in
			if alone && after.selection > before.selection {
				r.Errorf("%v without call %d: %v, then %v: %s", config, number, before.selection, after.selection, after.Feedback)
			}
		}
	})
}
