package match

import (
	"encoding/json"
	"testing"
)

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

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

func TestMatchSmoke(t *testing.T) {
	r := Match(Effects, []Expected{
		Once(target(t, "get", `{"values":{"id":1}}`)),
		Once(target(t, "/(get|put)/", `{"values":{"id":2}}`)),
	}, []Call{
		{Tool: "get", Arguments: json.RawMessage(`{"id":2}`), OK: true, ReadOnly: yes()},
		{Tool: "get", Arguments: json.RawMessage(`{"id":1.0}`), OK: true, ReadOnly: yes()},
		{Tool: "put", Arguments: json.RawMessage(`{"id":2}`), OK: true, ReadOnly: no()},
	})
	t.Logf("%+v %+v", r, r.Scores())
}
