package match

import (
	"encoding/json"
	"testing"
)

func target(t testing.TB, tool, args string) Target {
	t.Helper()
	made, err := CompileTool(tool)
	if err != nil {
		t.Fatal(err)
	}
	if args == "" {
		return Target{Tool: made}
	}
	return Target{Tool: made, Args: compile(t, args)}
}

func compile(t testing.TB, config string) *Args {
	t.Helper()
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

func call(tool, arguments string) Call {
	return Call{Server: "s", Tool: tool, Arguments: json.RawMessage(arguments), OK: true}
}

func TestModes(t *testing.T) {
	a, b := Once(target(t, "a", "")), Once(target(t, "b", ""))
	read, write := call("x", ""), call("x", "")
	read.ReadOnly = true
	failed := write
	failed.OK = false
	first, second := call("a", ""), call("b", "")
	for _, test := range []struct {
		mode  Mode
		calls []Call
		want  total
	}{
		{Effects, []Call{second, read, first, failed}, total{filled: 2, share: 2 * whole}},
		{Effects, []Call{first, write, second}, total{filled: 2, share: 2 * whole, tooMuch: -1}},
		{Superset, []Call{second, write, first}, total{filled: 2, share: 2 * whole}},
		{Unordered, []Call{second, first, failed}, total{filled: 2, share: 2 * whole}},
		{Unordered, []Call{second, first, read}, total{filled: 2, share: 2 * whole, tooMuch: -1}},
		{InOrder, []Call{first, write, second}, total{filled: 2, share: 2 * whole}},
		{InOrder, []Call{second, first}, total{filled: 1, share: whole}},
		{Exact, []Call{first, failed, second}, total{filled: 2, share: 2 * whole}},
		{Exact, []Call{first, read, second}, total{filled: 2, share: 2 * whole, tooMuch: -1}},
		{Subset, []Call{second}, total{optional: 1}},
		{Subset, []Call{second, second}, total{optional: 1, tooMuch: -1}},
	} {
		if got := Match(test.mode, []Expected{a, b}, test.calls).total(); got != test.want {
			t.Errorf("%s of %v: %+v, want %+v", test.mode, test.calls, got, test.want)
		}
	}
}

func TestScores(t *testing.T) {
	args := `{"values":{"x":1,"y":2}}`
	expected := []Expected{Once(target(t, "a", args)), Once(target(t, "b", ""))}
	s := Match(Unordered, expected, []Call{call("a", `{"x":1,"y":3}`), call("c", "")}).Scores()
	if s.Recall != 0.5 || s.Precision != 0.5 || s.Selection != 0.5 || *s.Params != 0.25 {
		t.Errorf("%+v", s)
	}
	for _, test := range []struct {
		calls []Call
		want  float64
	}{{nil, 1}, {[]Call{call("c", "")}, 0}} {
		if s := Match(Unordered, nil, test.calls).Scores(); s.Selection != test.want || s.Params != nil {
			t.Errorf("nothing expected, %v: %+v", test.calls, s)
		}
	}
	if s := Match(Superset, expected, nil).Scores(); s.Recall != 0 || s.Selection != 0 || *s.Params != 0 {
		t.Errorf("no calls: %+v", s)
	}
}

// The bad call is not paired if a good one can be: it is an extra call, which is allowed.
func TestABadCallIsNoOptionalOne(t *testing.T) {
	expected := []Expected{{Targets: []Target{target(t, "a", `{"values":{"x":1}}`)}, Min: 1, Max: 3}}
	calls := []Call{call("a", `{"x":2}`), call("a", `{"x":1}`)}
	if r := Match(Superset, expected, calls); !holds(r) || len(r.Pairs) != 1 || r.Pairs[0].Call != 1 {
		t.Errorf("%+v", r)
	}
	r := Match(Unordered, expected, calls)
	if len(r.TooMuch) != 1 || r.TooMuch[0].Expected != 0 || r.TooMuch[0].Differences[0].String() != "x: 2, expected 1" {
		t.Errorf("%+v", r.TooMuch)
	}
}

func TestNearest(t *testing.T) {
	get := target(t, "get_issue", `{"values":{"n":1}}`)
	get.Server = "gh"
	on := func(server string, c Call) Call { c.Server = server; return c }
	failed := on("gh", call("get_issue", `{"n":2}`))
	failed.OK = false
	for _, test := range []struct {
		calls []Call
		why   Reason
		diff  string
	}{
		{[]Call{on("gh", call("getIssue", `{"n":1}`)), on("gl", call("get_issue", `{}`)), failed}, Failed, "n: 2, expected 1"},
		{[]Call{on("gh", call("getIssue", `{"n":1}`)), on("gl", call("get_issue", `{}`))}, OtherServer, "n: nothing, expected 1"},
		{[]Call{on("gh", call("getIssue", `{"n":1}`))}, OtherName, ""},
	} {
		r := Match(Superset, []Expected{Once(get)}, test.calls)
		n := r.Missing[0].Nearest
		if n == nil || n.Why != test.why || len(n.Differences) > 0 && n.Differences[0].String() != test.diff {
			t.Errorf("%v: %+v", test.calls, n)
		}
	}
	order := []Expected{Once(get), Once(target(t, "b", ""))}
	r := Match(InOrder, order, []Call{call("b", ""), on("gh", call("get_issue", `{"n":5}`))})
	if len(r.Missing) != 1 || r.Missing[0].Nearest == nil || r.Missing[0].Nearest.Why != OutOfOrder {
		t.Errorf("%+v", r)
	}
	if r := Match(Superset, []Expected{Once(get)}, []Call{call("other", "")}); r.Missing[0].Nearest != nil {
		t.Errorf("%+v comes near", r.Missing[0].Nearest)
	}
}

func TestToolNames(t *testing.T) {
	for _, test := range []struct {
		tool, name string
		want       bool
	}{
		{"get", "get", true}, {"get", "GET", false}, {"get", "get_issue", false},
		{"/get_.*/", "get_issue", true}, {"/get/", "get_issue", false}, {"/a|b/", "ab", false}, {"/", "/", true},
	} {
		if got := target(t, test.tool, "").Names("any", test.name); got != test.want {
			t.Errorf("%s of %s: %v", test.name, test.tool, got)
		}
	}
	for _, wrong := range []string{"", "/(/", "/a)|(?:b/"} {
		if _, err := CompileTool(wrong); err == nil {
			t.Errorf("%q is a tool", wrong)
		}
	}
}
