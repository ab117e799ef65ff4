package images_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
)

const (
	node   = `{"dependencies": {"shared": "^1"}}`
	python = "[project]\nname = \"server\"\ndependencies = [\"shared\"]\n"
)

// TestFindRecipe_Workspace holds which projects are refused because they would get the packages of
// their workspace from a registry, and that what the message says is then accepted.
func TestFindRecipe_Workspace(t *testing.T) {
	const alone = "belongs to the workspace of "
	for name, tc := range map[string]struct {
		files map[string]string
		at    string // the project
		want  string // part of the error; empty for none
	}{
		"npm":                      {map[string]string{"package.json": `{"workspaces": ["packages/*"]}`, "packages/a/package.json": node}, "packages/a", alone + "package.json"},
		"npm, object":              {map[string]string{"package.json": `{"workspaces": {"packages": ["./packages/**"]}}`, "packages/a/b/package.json": node}, "packages/a/b", alone + "package.json"},
		"npm, braces":              {map[string]string{"package.json": `{"workspaces": ["{apps,packages}/*"]}`, "packages/a/package.json": node}, "packages/a", alone + "package.json"},
		"npm, byte order mark":     {map[string]string{"package.json": "\ufeff" + `{"workspaces": ["packages/a/"]}`, "packages/a/package.json": node}, "packages/a", alone + "package.json"},
		"npm, of no shape":         {map[string]string{"package.json": `{"workspaces": 1}`, "a/package.json": node}, "a", alone + "package.json"},
		"npm, unrelated":           {map[string]string{"package.json": `{"workspaces": ["apps/*"]}`, "packages/a/package.json": node}, "packages/a", ""},
		"npm, below a member":      {map[string]string{"package.json": `{"workspaces": ["packages/*"]}`, "packages/a/test/b/package.json": node}, "packages/a/test/b", ""},
		"npm, taken back":          {map[string]string{"package.json": `{"workspaces": ["packages/*", "!packages/a"]}`, "packages/a/package.json": node}, "packages/a", ""},
		"npm, another taken back":  {map[string]string{"package.json": `{"workspaces": ["packages/*", "!packages/{old,tmp}"]}`, "packages/a/package.json": node}, "packages/a", alone + "package.json"},
		"npm, none":                {map[string]string{"package.json": `{}`, "packages/a/package.json": node}, "packages/a", ""},
		"npm, its root":            {map[string]string{"package.json": `{"workspaces": ["packages/*"]}`, "packages/a/package.json": node}, ".", ""},
		"npm, through a link":      {map[string]string{"r/package.json": `{"workspaces": ["a"]}`, "r/a/package.json": node, "l": "->r/a"}, "l", alone + "package.json"},
		"npm, by its Dockerfile":   {map[string]string{"package.json": `{"workspaces": ["a"]}`, "a/package.json": node, "a/Dockerfile": "FROM x"}, "a", ""},
		"pnpm":                     {map[string]string{"pnpm-workspace.yaml": "packages: ['packages/*']", "packages/a/package.json": node}, "packages/a", "pnpm-workspace.yaml in "},
		"pnpm, its root":           {map[string]string{"pnpm-workspace.yaml": "packages: ['packages/*']", "package.json": node}, ".", "only pnpm understands; write a Dockerfile in "},
		"pnpm, settings alone":     {map[string]string{"pnpm-workspace.yaml": "onlyBuiltDependencies: [x]", "package.json": node}, ".", ""},
		"pnpm, garbled":            {map[string]string{"pnpm-workspace.yaml": "packages: [", "package.json": node}, ".", "only pnpm"},
		"lerna":                    {map[string]string{"lerna.json": `{"packages": ["packages/*"]}`, "packages/a/package.json": node}, "packages/a", "only lerna"},
		"lerna, of npm":            {map[string]string{"lerna.json": `{}`, "packages/a/package.json": node}, "packages/a", ""},
		"rush":                     {map[string]string{"rush.json": "// all\n{\"projects\": [{\"packageName\": \"a\", \"projectFolder\": \"apps/a\"}]}", "apps/a/package.json": node}, "apps/a", "only rush"},
		"workspace protocol":       {map[string]string{"package.json": `{"dependencies": {"shared": "workspace:*"}}`}, ".", "only pnpm, yarn or bun"},
		"portal protocol":          {map[string]string{"package.json": `{"devDependencies": {"shared": "portal:../shared"}}`}, ".", "only pnpm, yarn or bun"},
		"scripts of that name":     {map[string]string{"package.json": `{"scripts": {"a": "link:x", "b": "../x"}}`}, ".", ""},
		"yarn's registry":          {map[string]string{"package.json": node, ".yarnrc.yml": "npmScopes: {acme: {npmRegistryServer: 'https://npm.example'}}"}, ".", ".yarnrc.yml in"},
		"yarn's settings":          {map[string]string{"package.json": node, ".yarnrc.yml": "nodeLinker: node-modules"}, ".", ""},
		"bun's registry":           {map[string]string{"package.json": node, "bunfig.toml": "[install]\nregistry = 'https://npm.example'"}, ".", "only bun"},
		"npm, in yarn's workspace": {map[string]string{"package.json": `{"workspaces": ["a"]}`, ".yarnrc.yml": "npmScopes: {}", "a/package.json": node}, "a", "only yarn"},
		"file outside":             {map[string]string{"a/package.json": `{"dependencies": {"shared": "file:../shared"}}`}, "a", "names \"../shared\", which leads out"},
		"path outside":             {map[string]string{"a/b/package.json": `{"optionalDependencies": {"shared": "file:x/../../../shared"}}`}, "a/b", "leads out"},
		"file of the machine":      {map[string]string{"package.json": `{"dependencies": {"shared": "file:/srv/shared"}}`}, ".", "not there in a build"},
		"file inside":              {map[string]string{"package.json": `{"dependencies": {"shared": "file:./shared"}}`}, ".", ""},
		"go":                       {map[string]string{"go.work": "go 1.26\nuse (\n\t./a // it\n\t./b\n)\n", "a/go.mod": "module a"}, "a", alone + "go.work"},
		"go, one line":             {map[string]string{"go.work": "use \"./x/../a\"\n", "a/go.mod": "module a"}, "a", alone + "go.work"},
		"go, unrelated":            {map[string]string{"go.work": "use ./b\nreplace a => ./a\n", "a/go.mod": "module a"}, "a", ""},
		"go, replaced":             {map[string]string{"a/go.mod": "module a\nreplace b v1.0.0 => ../b\n"}, "a", "names \"../b\", which leads out"},
		"go, replaced inside":      {map[string]string{"a/go.mod": "module a\nreplace b => ./b\nreplace c => d v1.0.0\n"}, "a", ""},
		"uv":                       {map[string]string{"pyproject.toml": "[tool.uv.workspace]\nmembers = ['packages/*']\n", "packages/a/pyproject.toml": python}, "packages/a", alone + "pyproject.toml"},
		"uv, inline":               {map[string]string{"pyproject.toml": "[tool.uv]\nworkspace = { members = ['packages/*'] }\n", "packages/a/pyproject.toml": python}, "packages/a", alone + "pyproject.toml"},
		"uv, a member's source":    {map[string]string{"pyproject.toml": "[tool.uv.workspace]\nmembers = ['a']\n", "a/pyproject.toml": python + "[tool.uv.sources.shared]\nworkspace = true\n"}, "a", alone + "pyproject.toml"},
		"uv, with requirements":    {map[string]string{"pyproject.toml": "[tool.uv.workspace]\n", "a/requirements.txt": "shared"}, "a", alone + "pyproject.toml"},
		"uv, path outside":         {map[string]string{"a/pyproject.toml": python + "[tool.uv.sources]\nshared = { path = \"../shared\" }\n"}, "a", "names \"../shared\", which leads out"},
		"rye":                      {map[string]string{"pyproject.toml": "[tool.rye.workspace]\n", "a/pyproject.toml": python}, "a", "only rye or hatch"},
		"poetry's index":           {map[string]string{"pyproject.toml": python + "[[tool.poetry.source]]\nname = 'acme'\n"}, ".", "only poetry, pdm, rye or pixi"},
		"poetry":                   {map[string]string{"pyproject.toml": python + "[tool.poetry]\npackages = []\n"}, ".", ""},
		"requirements outside":     {map[string]string{"a/requirements.txt": "mcp\n-e ../shared\n"}, "a", "names \"../shared\", which leads out"},
		"requirements of another":  {map[string]string{"a/requirements.txt": "-r ../base.txt # all\n"}, "a", "names \"../base.txt\", which leads out"},
		"requirements by URL":      {map[string]string{"a/requirements.txt": "shared @ file:///srv/shared\n"}, "a", "not there in a build"},
		"requirements inside":      {map[string]string{"a/requirements.txt": "-e .\n-r base.txt\n./lib\nx @ git+https://a.example/x@v1\n--index-url https://a.example/../x\n"}, "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := project(t, tc.files)
			t.Chdir(root)
			_, _, err := images.FindRecipe(tc.at, mcpconfig.Build{Context: tc.at})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			if !strings.Contains(tc.want, alone) || tc.at == "l" {
				return
			}
			_, said, _ := strings.Cut(err.Error(), "{context: ")
			context, said, _ := strings.Cut(said, ", args: {MAIN: ")
			build := mcpconfig.Build{Context: context, Args: map[string]string{images.Main: strings.TrimSuffix(said, "}}")}}
			if _, _, err := images.FindRecipe(context, build); err != nil {
				t.Errorf("%+v, which was said: %v", build, err)
			}
		})
	}
}

// TestFindRecipe_Main holds what MAIN may name.
func TestFindRecipe_Main(t *testing.T) {
	dir := project(t, map[string]string{"package.json": "{}", "Dockerfile": "FROM x", "a/package.json": "{}", "b/c.js": "", "go/go.mod": "", "go/cmd/x/x.go": ""})
	for main, want := range map[string]images.Recipe{"": images.ByDockerfile, "./a": images.ByNode, "b": images.ByDockerfile, "../x": images.ByDockerfile, "/etc": images.ByDockerfile, "./go": images.ByGo} {
		if got, _, err := images.FindRecipe(dir, mcpconfig.Build{Args: map[string]string{images.Main: main}}); got != want || err != nil {
			t.Errorf("%s: %s, %v", main, got, err)
		}
	}
	if got, _, err := images.FindRecipe(filepath.Join(dir, "go"), mcpconfig.Build{Args: map[string]string{images.Main: "./cmd/x"}}); got != images.ByGo || err != nil {
		t.Error(got, err)
	}
	if _, _, err := images.FindRecipe(filepath.Join(dir, "a"), mcpconfig.Build{Args: map[string]string{images.Main: "../b"}}); err == nil || !strings.Contains(err.Error(), `MAIN names "../b"`) {
		t.Error(err)
	}
}

// TestFindWorkspace_Planted checks that what another user leaves in a directory that everybody can
// write to, such as /tmp, takes nothing of it into a build.
func TestFindWorkspace_Planted(t *testing.T) {
	root := project(t, map[string]string{"package.json": `{"workspaces": ["**"]}`, "mine/package.json": "{}"})
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	if w, err := images.FindWorkspace(filepath.Join(root, "mine"), images.ByNode); err != nil || w.File != "" {
		t.Errorf("%+v, %v", w, err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if w, err := images.FindWorkspace(filepath.Join(root, "mine"), images.ByNode); err != nil || w.File != "package.json" {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestLocalPackage holds which names of packages of a registry are those of packages here.
func TestLocalPackage(t *testing.T) {
	dir := project(t, map[string]string{
		"package.json": `{"name": "mono", "workspaces": ["packages/*"]}`, "packages/a/package.json": `{"name": "@acme/a", "bin": {"acme-a": "x"}}`, "packages/b/package.json": `{"name": "b", "bin": "x"}`,
		"node_modules/.bin/tool": "", "node_modules/.bin/own": "", "node_modules/own/package.json": "{}", "node_modules/x/package.json": `{"name": "x"}`,
		"py/pyproject.toml": "[project]\nname = 'Acme_Server'\n",
	})
	for command, want := range map[string]string{
		"npx -y @acme/a": "packages/a/package.json", "npx acme-a@1": "packages/a/package.json", "npx -p other b": "", "npx b": "packages/b/package.json", "npx tool": "node_modules/.bin/tool", "npx own": "", "npx x": "", "npx acme": "",
		"uvx acme-server": "py/pyproject.toml", "uvx acme.server==1": "py/pyproject.toml", "uvx acme": "",
	} {
		words := strings.Fields(command)
		p, ok, err := mcpconfig.ReadPackage("s", mcpconfig.Server{Command: words[0], Args: words[1:]})
		if err != nil || !ok {
			t.Fatal(command, err)
		}
		for _, at := range []string{dir, filepath.Join(dir, "packages/b")} {
			if words[0] == "uvx" && at != dir {
				continue
			}
			got, err := images.LocalPackage(at, p)
			if got = strings.TrimPrefix(got, dir+"/"); got != want || err != nil {
				t.Errorf("%s in %s: %q, %v", command, at, got, err)
			}
		}
	}
}

// FuzzFindRecipe_Workspace has manifests of a stranger read, above a project and in it: the answer comes soon, and a
// project that is accepted is built from where it belongs.
func FuzzFindRecipe_Workspace(f *testing.F) {
	f.Add(`{"workspaces": ["a/*", "!**/**/b"]}`, "packages: [a]", "use ./a", "[tool.uv.workspace]", `{"dependencies": {"a": "file:../b"}}`, "-e ../x")
	f.Add(`{"workspaces": {"packages": ["{a"]}}`, "packages: &a [*a]", "use (\n\"a", "[[tool.poetry.source]]", `{"dependencies": {"a": "link:"}}`, "@ file:")
	f.Fuzz(func(t *testing.T, npm, pnpm, work, uv, inner, requirements string) {
		plain := func(s string) string { return strings.TrimPrefix(s, "->") }
		dir := project(t, map[string]string{
			"package.json": plain(npm), "pnpm-workspace.yaml": plain(pnpm), "go.work": plain(work), "pyproject.toml": plain(uv),
			"n/package.json": plain(inner), "g/go.mod": plain(work), "p/requirements.txt": plain(requirements), "p/pyproject.toml": plain(uv),
		})
		for _, at := range []string{"n", "g", "p"} {
			recipe, _, err := images.FindRecipe(filepath.Join(dir, at), mcpconfig.Build{})
			if err != nil {
				continue
			}
			if w, err := images.FindWorkspace(filepath.Join(dir, at), recipe); err != nil || w.Needs != "" || w.File != "" && w.Root != filepath.Join(dir, at) {
				t.Errorf("%s is built alone, and belongs to %+v: %v", at, w, err)
			}
		}
	})
}
