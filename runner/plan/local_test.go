package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// fill gives a field a value that is not its zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		fill(t, v.Field(0))
	default:
		t.Fatalf("what is a %s here?", v.Type())
	}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// Every key of config.isolation acts without --isolate, or is said to have no
// effect.
func TestNoIsolationKeyIsIgnored(t *testing.T) {
	acts := []string{"agent.env", "agent.workdir", "agent.max_output", "agent.max_calls", "mcp_json"}
	check := func(name string, iso eval.Isolation) {
		want := []string{"config.isolation." + name}
		if slices.Contains(acts, name) {
			want = nil
		}
		if diff := cmp.Diff(want, notEnforced(eval.Config{Isolation: iso})); diff != "" {
			t.Errorf("%s (-want +said):\n%s", name, diff)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[eval.Isolation]()) {
		if f.Name == "Agent" {
			continue
		}
		var iso eval.Isolation
		fill(t, reflect.ValueOf(&iso).Elem().FieldByIndex(f.Index))
		check(jsonName(f), iso)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[eval.AgentContainer]()) {
		if f.Anonymous {
			continue
		}
		var iso eval.Isolation
		fill(t, reflect.ValueOf(&iso.Agent).Elem().FieldByIndex(f.Index))
		check("agent."+jsonName(f), iso)
	}
}

// Every field of a server acts on a process too, has no effect there, or is
// refused.
func TestNoServerFieldIsIgnored(t *testing.T) {
	acts := []string{
		"type", "command", "args", "env", "secrets", "cwd", "url", "headers", "port", "path", "tools",
		"startup_timeout", "timeout", "max_message", "max_frames", "max_traffic", "proxy", "addresses",
	}
	reported := []string{"image", "build", "egress"} // to have no effect
	for _, f := range reflect.VisibleFields(reflect.TypeFor[mcpconfig.Server]()) {
		if f.Anonymous {
			continue
		}
		var s mcpconfig.Server
		fill(t, reflect.ValueOf(&s).Elem().FieldByIndex(f.Index))
		name := jsonName(f)
		want := []string{name}
		if slices.Contains(acts, name) || slices.Contains(reported, name) {
			want = nil
		}
		if diff := cmp.Diff(want, eval.ContainerFields(s)); diff != "" {
			t.Errorf("%s: does it act on a process, is it refused, or has it no effect? (-want +said)\n%s", name, diff)
		}
	}
}

// Where a server's program and directory are relative, they are relative to the
// eval's directory.
func TestServersOnThisMachine(t *testing.T) {
	tests := []struct {
		server       mcpconfig.Server
		command, dir string
	}{
		{mcpconfig.Server{Command: "serve", Egress: []mcpconfig.Egress{{Host: "api.example"}}}, "serve", "/evals"},
		{mcpconfig.Server{Command: "./serve"}, "/evals/serve", "/evals"},
		{mcpconfig.Server{Command: "../bin/serve", Cwd: "data"}, "/bin/serve", "/evals/data"},
		{mcpconfig.Server{Command: "/opt/serve", Cwd: "/data"}, "/opt/serve", "/data"},
		{mcpconfig.Server{Command: "${BIN}/serve", Cwd: "${DATA}/in"}, "/evals/here/serve", "/data/in"},
	}
	lookup := func(name string) (string, bool) {
		return map[string]string{"BIN": "here", "DATA": "/data"}[name], true
	}
	for _, test := range tests {
		e := &eval.Eval{Path: "/evals/eval.yaml", Local: true}
		e.Config.TrialsPerTask, e.Config.Executor = 1, "mock"
		trials, err := Plan(e, []eval.ResolvedTask{{ID: "x", Servers: map[string]mcpconfig.Server{"s": test.server}}},
			Choices{Run: "r", Lookup: lookup, Secrets: &secret.Set{}})
		if err != nil {
			t.Fatal(err)
		}
		trial := trials[0]
		command, dir := "", trial.Servers[0].Program().Dir
		if args := trial.Servers[0].Program().Args; len(args) > 0 {
			command = args[0]
		}
		if command != test.command || dir != test.dir || trial.Isolated() || trial.Servers[0].Container != (sandbox.Container{}) || trial.Servers[0].Egress != nil {
			t.Errorf("%+v is %s in %s of %+v", test.server, command, dir, trial)
		}
	}
}
