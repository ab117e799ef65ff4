package mcpconfig_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/mcpconfig"
)

func TestMerge(t *testing.T) {
	base := map[string]*mcpconfig.Server{
		"keep":   {Command: "keep"},
		"drop":   {Command: "drop"},
		"change": {Command: "old", Args: []string{"a"}, Cwd: "/old", Env: map[string]string{"A": "1", "B": "2"}, Timeout: 5},
	}
	overlay := map[string]*mcpconfig.Server{
		"drop":   nil,
		"change": {Args: []string{}, Cwd: "/new", Env: map[string]string{"B": "3", "C": "4"}, Files: map[string]string{"/f": "f"}},
		"add":    {Image: "i"},
	}
	got, err := mcpconfig.Merge(base, overlay)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]mcpconfig.Server{
		"keep": {Command: "keep"},
		"change": {
			Command: "old", Args: []string{}, Cwd: "/new", Timeout: 5,
			Env: map[string]string{"A": "1", "B": "3", "C": "4"}, Files: map[string]string{"/f": "f"},
		},
		"add": {Image: "i"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got["change"].Env["A"] = "changed"
	got["change"].Files["/f"] = "changed"
	if base["change"].Env["A"] != "1" || len(base["change"].Env) != 2 || overlay["change"].Files["/f"] != "f" {
		t.Error("the result shares a map with an argument")
	}
}

// TestMergeEveryField checks that no field is forgotten when one is added.
func TestMergeEveryField(t *testing.T) {
	var fill func(v reflect.Value, s string, n int)
	fill = func(v reflect.Value, s string, n int) {
		for i := range v.NumField() {
			switch f := v.Field(i); f.Interface().(type) {
			case string:
				f.SetString(s)
			case int:
				f.SetInt(int64(n))
			case float64:
				f.SetFloat(float64(n))
			case []string:
				f.Set(reflect.ValueOf([]string{s}))
			case map[string]string:
				f.Set(reflect.ValueOf(map[string]string{"K": s}))
			case []mcpconfig.Egress:
				f.Set(reflect.ValueOf([]mcpconfig.Egress{{Host: s, Ports: []int{n}, Address: s}}))
			case map[string]mcpconfig.Secret:
				f.Set(reflect.ValueOf(map[string]mcpconfig.Secret{"K": {File: s}}))
			case []int:
				f.Set(reflect.ValueOf([]int{n}))
			case bool:
				f.SetBool(true)
			case mcpconfig.Limits:
				fill(f, s, n)
			case *mcpconfig.Build:
				var build mcpconfig.Build
				fill(reflect.ValueOf(&build).Elem(), s, n)
				f.Set(reflect.ValueOf(&build))
			case *mcpconfig.Ready:
				var ready mcpconfig.Ready
				fill(reflect.ValueOf(&ready).Elem(), s, n)
				f.Set(reflect.ValueOf(&ready))
			case map[string]*mcpconfig.Service:
				var service mcpconfig.Service
				fill(reflect.ValueOf(&service).Elem(), s, n)
				f.Set(reflect.ValueOf(map[string]*mcpconfig.Service{"db": &service}))
			default:
				t.Fatalf("field %s has a type that Merge and Expand do not know", v.Type().Field(i).Name)
			}
		}
	}
	full := func(s string, n int) *mcpconfig.Server {
		var server mcpconfig.Server
		fill(reflect.ValueOf(&server).Elem(), s, n)
		return &server
	}
	got, err := mcpconfig.Merge(map[string]*mcpconfig.Server{"s": full("a", 1)}, map[string]*mcpconfig.Server{"s": full("b", 2)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*full("b", 2), got["s"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMergeErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		base, overlay map[string]*mcpconfig.Server
		want          string
	}{
		"undeclared":      {nil, map[string]*mcpconfig.Server{"x": nil}, `server "x": the eval does not declare it, so it cannot be removed`},
		"nothing in base": {map[string]*mcpconfig.Server{"x": nil}, nil, `server "x": there is nothing to remove it from; give it a command, an image or a url`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mcpconfig.Merge(tc.base, tc.overlay)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func lookup(name string) (string, bool) {
	value, ok := map[string]string{"TOKEN": "s3cret", "EMPTY": "", "ODD": "${TOKEN}"}[name]
	return value, ok
}

func TestExpand(t *testing.T) {
	for name, tc := range map[string]struct {
		in, want string
		secrets  []string
	}{
		"none":               {"plain $ $x $$ }", "plain $ $x $$ }", nil},
		"one":                {"Bearer ${TOKEN}!", "Bearer s3cret!", []string{"s3cret"}},
		"twice":              {"${TOKEN}${TOKEN}", "s3crets3cret", []string{"s3cret"}},
		"set beats default":  {"${TOKEN:-d}", "s3cret", []string{"s3cret"}},
		"default":            {"a${NONE:-d e}f", "ad ef", nil},
		"empty default":      {"a${NONE:-}f", "af", nil},
		"default for empty":  {"${EMPTY:-d}", "d", nil},
		"set and empty":      {"a${EMPTY}b", "ab", nil},
		"literal":            {"$${TOKEN} ${TOKEN}", "${TOKEN} s3cret", []string{"s3cret"}},
		"literal unfinished": {"$${", "${", nil},
		"not again":          {"${ODD}", "${TOKEN}", []string{"${TOKEN}"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := mcpconfig.Server{Command: tc.in, Args: []string{tc.in}, Env: map[string]string{"A": tc.in}}
			got, values, err := mcpconfig.Expand("s", in, lookup)
			if err != nil {
				t.Fatal(err)
			}
			want := mcpconfig.Server{Command: tc.want, Args: []string{tc.want}, Env: map[string]string{"A": tc.want}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.secrets, textsOf(values)); diff != "" {
				t.Errorf("secrets (-want +got):\n%s", diff)
			}
			if in.Args[0] != tc.in || in.Env["A"] != tc.in {
				t.Error("the argument is changed")
			}
		})
	}
}

func TestExpandErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		in   mcpconfig.Server
		want string
	}{
		"missing": {
			mcpconfig.Server{Command: "${A}", Args: []string{"x", "${B}"}, Env: map[string]string{"K": "${C}"}},
			`server "s": command needs the variable A, which is not set; set it, or give a default as in ${A:-default}
server "s": args[1] needs the variable B, which is not set; set it, or give a default as in ${B:-default}
server "s": env.K needs the variable C, which is not set; set it, or give a default as in ${C:-default}`,
		},
		"unterminated": {mcpconfig.Server{Command: "a ${TOKEN"}, `server "s": command: a ${ has no }; write $${ for a literal ${`},
		"no name":      {mcpconfig.Server{Command: "${}"}, "server \"s\": command: ${…} does not hold a variable's name; write ${VAR}, ${VAR:-default}, or $${ for a literal ${"},
		"odd operator": {mcpconfig.Server{Command: "${A-b}"}, "server \"s\": command: ${…} does not hold a variable's name; write ${VAR}, ${VAR:-default}, or $${ for a literal ${"},
		"nested":       {mcpconfig.Server{Command: "${A:-${B}}"}, `server "s": command: the default of ${A} holds another variable, which is not possible`},
		"value unfit":  {mcpconfig.Server{Command: "c", Limits: mcpconfig.Limits{Memory: "${TOKEN}"}}, `server "s": memory is not a size; write a whole number and k, m or g, such as 512m`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := mcpconfig.Expand("s", tc.in, lookup)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Error("the error holds a secret")
			}
		})
	}
}

func TestVariables(t *testing.T) {
	got, err := mcpconfig.Variables("s", mcpconfig.Server{
		Command: "${A}", Args: []string{"$${no}", "${B:-x}"}, Env: map[string]string{"K": "${A}${C}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []mcpconfig.Variable{
		{Name: "A"},
		{Name: "B", HasDefault: true},
		{Name: "A"},
		{Name: "C"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := mcpconfig.Variables("s", mcpconfig.Server{Command: "${"}); err == nil {
		t.Error("an unterminated variable is taken")
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "$", "${TOKEN}", "${A:-b}", "$${A}", "$$${A}", "${", "${A", "${A:-${B}}", "a}b${EMPTY:-}"} {
		f.Add(seed, "value")
	}
	f.Fuzz(func(t *testing.T, in, value string) {
		s := mcpconfig.Server{Command: "run", Args: []string{in}}
		got, values, err := mcpconfig.Expand("s", s, func(string) (string, bool) { return value, true })
		variables, syntax := mcpconfig.Variables("s", s)
		if syntax != nil && err == nil {
			t.Errorf("Variables refuses what Expand takes: %v", syntax)
		}
		if err != nil {
			return
		}
		if !strings.Contains(in, "${") && got.Args[0] != in {
			t.Errorf("%q became %q", in, got.Args[0])
		}
		if len(variables) > 0 && value != "" && (len(values) != 1 || !strings.Contains(got.Args[0], value)) {
			t.Errorf("%q with %q gave %q, secrets %q", in, value, got.Args[0], values)
		}
		if len(variables) == 0 && len(values) > 0 {
			t.Errorf("values %q out of nowhere", values)
		}
	})
}

// textsOf returns what values are, without duplicates and sorted.
func textsOf(values []mcpconfig.Value) (all []string) {
	for _, v := range values {
		all = append(all, v.Text)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
