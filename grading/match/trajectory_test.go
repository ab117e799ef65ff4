package match

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// trajectory is a case of agentevals: messages with calls in them, compared with
// messages of reference.
type trajectory struct {
	Mode               string
	ArgsMode           string `json:"args_mode"`
	Overrides          map[string]json.RawMessage
	Outputs, Reference []message
	Verdict            bool
}

type message struct {
	Role      string
	ToolCalls []struct {
		Name      string
		Arguments map[string]json.RawMessage
	} `json:"tool_calls"`
}

// What its words are here. It compares values of arguments as wholes, so each is
// written with equals.
var (
	trajectoryModes = map[string]Mode{"strict": Exact, "unordered": Unordered, "superset": Superset, "subset": Subset}
	argumentRules   = map[string]string{"exact": "exact", "superset": "contains", "subset": "within", "ignore": "ignore"}
)

// verdict is ours. swapped reads superset as subset and the other way round.
func (c trajectory) verdict(t *testing.T, swapped bool) bool {
	expected, calls := c.sides(t, swapped)
	return holds(Match(trajectoryModes[c.Mode], expected, calls))
}

func (c trajectory) sides(t *testing.T, swapped bool) (expected []Expected, calls []Call) {
	for _, m := range c.Reference {
		for _, call := range m.ToolCalls {
			made := target(t, call.Name, string(encode(t, c.args(t, call.Name, call.Arguments, swapped))))
			expected = append(expected, Once(made))
		}
	}
	for _, m := range c.Outputs {
		for _, call := range m.ToolCalls {
			calls = append(calls, Call{Tool: call.Name, Arguments: encode(t, call.Arguments), OK: true})
		}
	}
	return expected, calls
}

// greedy gives each expected call the first one that is left and fits, and says
// whether that goes through.
func (c trajectory) greedy(t *testing.T) bool {
	expected, calls := c.sides(t, false)
	for _, e := range expected {
		first := slices.IndexFunc(calls, func(call Call) bool {
			return e.Targets[0].Names("", call.Tool) && e.Targets[0].Args.Check(call.Arguments).Full()
		})
		if first < 0 {
			return false
		}
		calls = slices.Delete(calls, first, first+1)
	}
	return true
}

// holds reports whether nothing is wrong.
func holds(r Result) bool {
	s := r.Scores()
	return s.Selection == 1 && (s.Params == nil || *s.Params == 1)
}

func (c trajectory) args(t *testing.T, tool string, reference map[string]json.RawMessage, swapped bool) ArgsConfig {
	mode := c.ArgsMode
	if override, ok := c.Overrides[tool]; ok {
		var paths []string
		if json.Unmarshal(override, &paths) == nil {
			return onPaths(t, reference, paths)
		}
		if err := json.Unmarshal(override, &mode); err != nil {
			t.Fatal(err)
		}
	}
	if swapped && mode != "exact" && mode != "ignore" {
		mode = map[string]string{"subset": "superset", "superset": "subset"}[mode]
	}
	if mode == "ignore" {
		return ArgsConfig{Match: "ignore"}
	}
	values := map[string]json.RawMessage{}
	for name, value := range reference {
		values[name] = encode(t, map[string]any{"equals": value})
	}
	return ArgsConfig{Match: argumentRules[mode], Values: values}
}

// onPaths expects what the reference has at paths such as opt.y.z; where it has
// nothing or null there, either.
func onPaths(t *testing.T, reference map[string]json.RawMessage, paths []string) ArgsConfig {
	values := map[string]json.RawMessage{}
	for _, path := range paths {
		names := strings.Split(path, ".")
		value := at(reference, names)
		want := any(map[string]any{"equals": value})
		if value == nil {
			want = map[string]any{"absent_or": nil}
		}
		for _, name := range slices.Backward(names[1:]) {
			want = map[string]any{name: want}
			if value == nil {
				want = map[string]any{"absent_or": want}
			}
		}
		values[names[0]] = encode(t, want)
	}
	return ArgsConfig{Values: values}
}

// at returns the value at a path; nil if there is none, and for null.
func at(members map[string]json.RawMessage, path []string) json.RawMessage {
	value := members[path[0]]
	if string(value) == "null" {
		return nil
	}
	if len(path) == 1 || value == nil {
		return value
	}
	var below map[string]json.RawMessage
	_ = json.Unmarshal(value, &below) // only objects have members
	return at(below, path[1:])
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Why agentevals differs from us.
const (
	groups = "its strict compares messages: the same calls in the same order, dealt out to other messages, differ"
	swaps  = "its subset swaps what is expected and what is given, and its unordered does that as well"
	grabs  = "it takes the first call that fits, which another expectation needs"
)

// reason explains a verdict that is not ours; empty where nothing does.
func (c trajectory) reason(t *testing.T) string {
	ours, swapped := c.verdict(t, false), c.verdict(t, true)
	switch {
	case c.Mode == "strict" && ours && !slices.Equal(shape(c.Outputs), shape(c.Reference)):
		return groups
	case c.Mode == "subset" && swapped == c.Verdict, c.Mode == "unordered" && (ours && swapped) == c.Verdict:
		return swaps
	case c.Mode == "unordered" && ours && !c.greedy(t):
		return grabs
	}
	return ""
}

// shape is how calls are dealt out to messages.
func shape(messages []message) []string {
	var all []string
	for _, m := range messages {
		all = append(all, fmt.Sprint(m.Role, len(m.ToolCalls)))
	}
	return all
}

func TestTrajectories(t *testing.T) {
	agree, reasons := 0, map[string]int{}
	for i, c := range readCases[trajectory](t, shared(t, "trajectory_match_sample.jsonl")) {
		got := c.verdict(t, false)
		if got == c.Verdict {
			agree++
			continue
		}
		reason := c.reason(t)
		if reason == "" {
			t.Errorf("row %d: %s, arguments %s: %v, and agentevals says %v", i+1, c.Mode, c.ArgsMode, got, c.Verdict)
			continue
		}
		reasons[reason]++
		t.Logf("row %d: %s, arguments %s: %v, and agentevals says %v: %s", i+1, c.Mode, c.ArgsMode, got, c.Verdict, reason)
	}
	t.Logf("%d rows agree", agree)
	if want := map[string]int{groups: 16, swaps: 3, grabs: 1}; agree != 280 || !maps.Equal(reasons, want) {
		t.Errorf("%d rows agree, want 280; the others %v, want %v", agree, reasons, want)
	}
}
