package mcpconfig_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/mcpconfig"
)

func TestReadPackage(t *testing.T) {
	npm := func(program string, args []string, wanted ...mcpconfig.Requirement) mcpconfig.Package {
		return mcpconfig.Package{Ecosystem: mcpconfig.NPM, Program: program, Args: args, Wanted: wanted}
	}
	pypi := func(program string, args []string, wanted ...mcpconfig.Requirement) mcpconfig.Package {
		p := npm(program, args, wanted...)
		p.Ecosystem = mcpconfig.PyPI
		return p
	}
	r := func(text, name, spec string) mcpconfig.Requirement {
		return mcpconfig.Requirement{Text: text, Name: name, Spec: spec}
	}
	for line, want := range map[string]mcpconfig.Package{
		"npx thing":                              npm("", nil, r("thing", "thing", "")),
		"/usr/local/bin/npx -y thing":            npm("", nil, r("thing", "thing", "")),
		"npx --yes -q --quiet -y thing -y ${A}":  npm("", []string{"-y", "${A}"}, r("thing", "thing", "")),
		"npx -y @a/b@1.2.3 /data":                npm("", []string{"/data"}, r("@a/b@1.2.3", "@a/b", "1.2.3")),
		"npx @a/b@latest":                        npm("", nil, r("@a/b@latest", "@a/b", "latest")),
		"npx b@^1.2":                             npm("", nil, r("b@^1.2", "b", "^1.2")),
		"npx b@1.0.0-rc.1+x":                     npm("", nil, r("b@1.0.0-rc.1+x", "b", "1.0.0-rc.1+x")),
		"npx -- thing -- x":                      npm("", []string{"--", "x"}, r("thing", "thing", "")),
		"npx -p a@1.0.0 --package b run --x":     npm("run", []string{"--x"}, r("a@1.0.0", "a", "1.0.0"), r("b", "b", "")),
		"npx --package=@a/b run":                 npm("run", nil, r("@a/b", "@a/b", "")),
		"npm exec -- thing -x":                   npm("", []string{"-x"}, r("thing", "thing", "")),
		"npm x --yes thing -- -x":                npm("", []string{"-x"}, r("thing", "thing", "")),
		"npm exec thing a b":                     npm("", []string{"a", "b"}, r("thing", "thing", "")),
		"npm exec --package=a -- run -x":         npm("run", []string{"-x"}, r("a", "a", "")),
		"uvx tool":                               pypi("tool", nil, r("tool", "tool", "")),
		"uvx tool@1.2 --x":                       pypi("tool", []string{"--x"}, r("tool@1.2", "tool", "==1.2")),
		"uvx tool@latest":                        pypi("tool", nil, r("tool@latest", "tool", "")),
		"uvx tool==1.2":                          pypi("tool", nil, r("tool==1.2", "tool", "==1.2")),
		"uvx -q tool[cli,x]==1.2":                pypi("tool", nil, r("tool[cli,x]==1.2", "tool", "[cli,x]==1.2")),
		"uvx tool[cli]@1.2":                      pypi("tool", nil, r("tool[cli]@1.2", "tool", "[cli]==1.2")),
		"uvx --from some-pkg>=1,<2 tool ${X}":    pypi("tool", []string{"${X}"}, r("some-pkg>=1,<2", "some-pkg", ">=1,<2")),
		"uvx --from=p==1 --with a --with=b>2 t":  pypi("t", nil, r("p==1", "p", "==1"), r("a", "a", ""), r("b>2", "b", ">2")),
		"uv tool run --with a tool":              pypi("tool", nil, r("tool", "tool", ""), r("a", "a", "")),
		"uvx tool==1.*":                          pypi("tool", nil, r("tool==1.*", "tool", "==1.*")),
		"npx some_Legacy.Name~x":                 npm("", nil, r("some_Legacy.Name~x", "some_Legacy.Name~x", "")),
		"npx --package a --package @b/c@~2.0 go": npm("go", nil, r("a", "a", ""), r("@b/c@~2.0", "@b/c", "~2.0")),
	} {
		t.Run(line, func(t *testing.T) {
			got, ok, err := mcpconfig.ReadPackage("s", server(line))
			if err != nil || !ok {
				t.Fatalf("%t, %v", ok, err)
			}
			if len(got.Args) == 0 {
				got.Args = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func server(line string) mcpconfig.Server {
	words := strings.Fields(line)
	return mcpconfig.Server{Command: words[0], Args: words[1:]}
}

func TestReadPackageLeavesOthersAlone(t *testing.T) {
	for name, s := range map[string]mcpconfig.Server{
		"a program": server("node server.js"),
		"npm start": server("npm start"),
		"npm":       server("npm"),
		"uv run":    server("uv run server.py"),
		"uv tool":   server("uv tool"),
		"remote":    {URL: "http://h"},
	} {
		if p, ok, err := mcpconfig.ReadPackage("s", s); ok || err != nil {
			t.Errorf("%s: %+v, %t, %v", name, p, ok, err)
		}
	}
}

func TestReadPackageRefuses(t *testing.T) {
	const image = "install it into an image, and give the server that image"
	for line, tc := range map[string]struct{ key, want string }{
		"npx":                        {"", "name no package; write one, such as @modelcontextprotocol/"},
		"npx -y":                     {"", "name no package"},
		"npx --node-options=x thing": {"0", "npx option --node-options is not understood here; understood are -y, --yes, -q, --quiet, -p, --package"},
		"npx -y --call x":            {"1", "option --call is not understood"},
		"npx --yes=no thing":         {"0", "option --yes is not understood"},
		"npx -y${S}cret thing":       {"0", "option of this name is not understood"},
		"npx -p":                     {"0", "option -p needs a package"},
		"npx -p a run@1.0.0":         {"2", "args[2] is not the name of a program"},
		"npx -p a -p a run":          {"", "name the package a twice"},
		"npx thing@${V}":             {"0", "args[0] must not contain variables"},
		"npx ${P}":                   {"0", "must not contain variables"},
		"npx github:a/b":             {"0", image},
		"npx a/b":                    {"0", image},
		"npx git+https://h/x.git":    {"0", image},
		"npx https://h/x.tgz":        {"0", image},
		"npx ./here":                 {"0", image},
		"npx -p ../x.tgz run":        {"1", image},
		"npx a@npm:b@1":              {"0", image},
		"npx a@":                     {"0", "args[0] is not a package"},
		"npx a;b":                    {"0", "args[0] is not a package"},
		"npx @a":                     {"0", "args[0] is not a package"},
		"npx @a/../b":                {"0", "args[0] is not a package"},
		"npm exec thing --flag":      {"2", "put -- between the package and the server's arguments"},
		"npm exec -p a run":          {"1", "option -p is not understood"},
		"uvx --python 3.12 tool":     {"0", "uvx option --python is not understood here; understood are -q, --quiet, --from, --with"},
		"uvx --from git+https://h t": {"1", image},
		"uvx --from ./x t":           {"1", image},
		"uvx --from x.whl t":         {"1", image},
		"uvx --from a --from b t":    {"3", "takes one --from"},
		"uvx --with a,b t":           {"1", "args[1] is not a package"},
		"uvx tool@>=1":               {"0", "args[0] is not a package"},
		"uvx -y tool":                {"0", "option -y is not understood"},
		"uv tool run":                {"", "args of uv tool run name no package"},
	} {
		t.Run(line, func(t *testing.T) {
			_, ok, err := mcpconfig.ReadPackage("s", server(line))
			var all mcpconfig.Errors
			if !ok || !errors.As(err, &all) {
				t.Fatalf("%t, %v", ok, err)
			}
			if e := all[0]; !strings.Contains(e.Message, tc.want) || e.Field != "args" || e.Key != tc.key || e.Server != "s" {
				t.Errorf("%q at %s[%s], want %q at [%s]", e.Message, e.Field, e.Key, tc.want, tc.key)
			}
		})
	}
}

// Parsed names are written to files that npm and pip read: they must contain nothing that
// means more there than a name and a version.
func FuzzReadPackage(f *testing.F) {
	for _, line := range []string{"npx -y @a/b@1.2.3 x", "npm exec --package=a -- run", "uvx --from a[b]>=1,<2 --with=c t", "uv tool run t@1 -- ${X}", "npx ${A}"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, " ")
		s := mcpconfig.Server{Command: words[0], Args: words[1:]}
		p, ok, err := mcpconfig.ReadPackage("s", s)
		if !ok || err != nil {
			return
		}
		if len(p.Wanted) == 0 || len(p.Args) > len(s.Args) || !slices.Equal(p.Args, s.Args[len(s.Args)-len(p.Args):]) {
			t.Fatalf("%q: %+v", line, p)
		}
		if strings.ContainsAny(p.Program, "/ \n\\") || p.Ecosystem == mcpconfig.PyPI && p.Program == "" {
			t.Fatalf("%q: program %q", line, p.Program)
		}
		for _, w := range p.Wanted {
			if w.Name == "" || strings.HasPrefix(w.Name, "-") || strings.ContainsAny(w.Name+w.Spec, " \t\r\n\"'\\$:;#") {
				t.Fatalf("%q: %+v", line, w)
			}
		}
	})
}
