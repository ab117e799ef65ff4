package images_test

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
)

// project makes a directory of files. A content that begins with -> is a link.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(content, "->"); isLink {
			err = os.Symlink(target, at)
		} else {
			err = os.WriteFile(at, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func source(t *testing.T, dir string, b mcpconfig.Build, omit ...string) *images.Source {
	t.Helper()
	s, err := images.ReadSource(dir, b, images.Bases{}, omit)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSource_Files holds what of a directory gets into a build: nothing secret or ignored, and
// links as links.
func TestSource_Files(t *testing.T) {
	all := map[string]string{
		".git/config": "token", "sub/.git": "gitdir: ../.git/modules/sub", "sub/.GIT/config": "token", ".env": "TOKEN=1", "sub/.env": "TOKEN=2", ".env.local": "TOKEN=3", ".netrc": "token", "sub/.aws/credentials": "token", ".ssh/id_rsa": "token", ".docker/config.json": "token", ".pypirc": "token", ".git-credentials": "token", ".mcp.json": "token", "sub/mcp.json": "token", ".vscode/mcp.json": "token", ".cursor/mcp.json": "token", ".waza/runs/1/run.json": "{}", "waza.lock": "{}",
		"server.js": "1", "eval.yaml": "answers", "tasks/a.yaml": "answers", "sub/a.js": "2", "link": "->sub/a.js", "sub/up": "->../server.js", "empty/.keep": "",
		"node_modules/x/index.js": "3", "docs/a.md": "4", "docs/b.md": "5", ".npmrc": "",
	}
	with := func(files map[string]string) string {
		both := maps.Clone(all)
		maps.Copy(both, files)
		return project(t, both)
	}
	for name, tc := range map[string]struct {
		files map[string]string
		build mcpconfig.Build
		want  string
	}{
		"recipe": {map[string]string{"package.json": "{}"}, mcpconfig.Build{},
			".npmrc docs/ docs/a.md docs/b.md empty/ empty/.keep link package.json server.js sub/ sub/a.js sub/up"},
		"Dockerfile": {map[string]string{"Dockerfile": "FROM scratch"}, mcpconfig.Build{},
			".npmrc Dockerfile docs/ docs/a.md docs/b.md empty/ empty/.keep link node_modules/ node_modules/x/ node_modules/x/index.js server.js sub/ sub/a.js sub/up"},
		"ignored": {map[string]string{"Dockerfile": "FROM scratch", ".dockerignore": "*\n!server.js\n!docs/b.md\n# no\n"}, mcpconfig.Build{},
			".dockerignore Dockerfile docs/b.md server.js"},
		"taken back": {map[string]string{"Dockerfile": "FROM scratch", ".dockerignore": "**\n!sub/.env\n!**/.git\n!**/.git/**\n!.git/config\n"}, mcpconfig.Build{},
			".dockerignore Dockerfile sub/.env"},
		"Dockerfile elsewhere": {map[string]string{"docker/it": "FROM scratch", "docker/it.dockerignore": "*", ".dockerignore": "nothing"}, mcpconfig.Build{Dockerfile: "docker/it"},
			".dockerignore docker/ docker/it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := with(tc.files)
			files := unpack(t, must(source(t, dir, tc.build, filepath.Join(dir, "eval.yaml"), filepath.Join(dir, "tasks/a.yaml")).Context(images.Network{})))
			var names []string
			_, isRecipe := files["source/package.json"]
			for file := range files {
				if below, ok := strings.CutPrefix(file, "source/"); ok && below != "." && below != "" || !isRecipe {
					names = append(names, below)
				}
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestSource_EarlierRuns checks that directories of earlier runs do not change what is
// built, wherever they are, and that a run.json of another program does.
func TestSource_EarlierRuns(t *testing.T) {
	files := map[string]string{"Dockerfile": "FROM scratch", ".dockerignore": "!**", "ci/run.json": "{}", "data/run.json": "{}", "data/trials/t/1/trial.json": "{}"}
	before := source(t, project(t, files), mcpconfig.Build{})
	for _, dir := range []string{"run", "old/runs/1"} {
		for _, name := range []string{"run.json", "report.html", "trials/t/1/trial.json"} {
			files[dir+"/"+name] = "{}"
		}
	}
	after := source(t, project(t, files), mcpconfig.Build{})
	if after.Tag() != before.Tag() {
		t.Error("earlier runs changed the image")
	}
	names := slices.Sorted(maps.Keys(unpack(t, must(after.Context(images.Network{})))))
	if want := []string{".dockerignore", "Dockerfile", "ci/", "ci/run.json", "data/", "data/run.json", "data/trials/", "data/trials/t/", "data/trials/t/1/", "data/trials/t/1/trial.json"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// TestSource_RunDirectory checks that the directory of the current run, which is created
// when it starts, does not change what is built.
func TestSource_RunDirectory(t *testing.T) {
	dir := project(t, map[string]string{"Dockerfile": "FROM scratch", "out/kept": "1"})
	s := source(t, dir, mcpconfig.Build{}, filepath.Join(dir, "out", "runs", "1"))
	written := project(t, map[string]string{"run.json": "{}"})
	if err := os.CopyFS(filepath.Join(dir, "out", "runs", "1"), os.DirFS(written)); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, must(s.Context(images.Network{})))
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, []string{"Dockerfile", "out/kept"}) {
		t.Errorf("%q", got)
	}
}

// TestSource_Tag holds that the tag is of the content: no time and no run changes it.
func TestSource_Tag(t *testing.T) {
	files := map[string]string{"package.json": "{}", "a.js": "1"}
	dir := project(t, files)
	tag := source(t, dir, mcpconfig.Build{}).Tag()
	if again := source(t, project(t, files), mcpconfig.Build{}).Tag(); again != tag {
		t.Errorf("the same files elsewhere are %s and %s", tag, again)
	}
	for name, other := range map[string]string{
		"args":    source(t, dir, mcpconfig.Build{Args: map[string]string{"A": "1"}}).Tag(),
		"content": source(t, project(t, map[string]string{"package.json": "{}", "a.js": "2"}), mcpconfig.Build{}).Tag(),
		"name":    source(t, project(t, map[string]string{"package.json": "{}", "b.js": "1"}), mcpconfig.Build{}).Tag(),
	} {
		if other == tag {
			t.Errorf("other %s gives the same tag", name)
		}
	}
	s := source(t, dir, mcpconfig.Build{})
	if err := os.WriteFile(filepath.Join(dir, "a.js"), []byte("2"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := must(s.Context(images.Network{})).Tar(io.Discard); err == nil || !strings.Contains(err.Error(), "a.js in "+dir+" has changed") {
		t.Errorf("a file that changed: %v", err)
	}
	for name, change := range map[string]func(dir string) error{
		"b.js":         func(dir string) error { return os.Remove(filepath.Join(dir, "b.js")) },
		"bb.js":        func(dir string) error { return os.WriteFile(filepath.Join(dir, "bb.js"), nil, 0o644) },
		"package.json": func(dir string) error { return os.Remove(filepath.Join(dir, "package.json")) },
		"z":            func(dir string) error { return os.WriteFile(filepath.Join(dir, "z"), nil, 0o644) },
	} {
		dir := project(t, map[string]string{"package.json": "{}", "a.js": "1", "b.js": "1"})
		s := source(t, dir, mcpconfig.Build{})
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		if err := must(s.Context(images.Network{})).Tar(io.Discard); err == nil || !strings.Contains(err.Error(), name+" in "+dir+" has changed since it was read; run again, or name it in .dockerignore") {
			t.Errorf("%s changed: %v", name, err)
		}
	}
}

// TestSource_Output checks that a file that waza's output goes to is not part of the build, so that
// it may grow.
func TestSource_Output(t *testing.T) {
	dir := project(t, map[string]string{"package.json": "{}", "a.js": "1", "sub/log": ""})
	log, err := os.OpenFile(filepath.Join(dir, "sub", "log"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	output, err := log.Stat()
	if err != nil {
		t.Fatal(err)
	}
	s, err := images.ReadSource(dir, mcpconfig.Build{}, images.Bases{}, nil, output)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.WriteString("more"); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(unpack(t, must(s.Context(images.Network{}))))); slices.Contains(got, "source/sub/log") || !slices.Contains(got, "source/a.js") {
		t.Errorf("%q", got)
	}
}

// TestSource_Packages holds which projects have an image of their packages, and that it is of them
// alone.
func TestSource_Packages(t *testing.T) {
	of := func(files map[string]string) *images.Source {
		return source(t, project(t, files), mcpconfig.Build{}).Packages
	}
	for _, manifest := range []string{
		`{}`, `[]`, `{"dependencies": {}}`, `{"dependencies": {"a": "1", "b": "file:b"}}`, `{"dependencies": {"b": "./b"}}`, `{"workspaces": ["b"], "dependencies": {"a": "1"}}`, `{"dependencies": {"b": "of/github"}}`,
	} {
		if p := of(map[string]string{"package.json": manifest}); p != nil {
			t.Errorf("%s has an image of packages", manifest)
		}
	}
	files := map[string]string{"package.json": `{"dependencies": {"a": "^1", "b": "npm:c@2"}}`, "package-lock.json": "{}", ".npmrc": "", "a.js": "1", "sub/package.json": "{}"}
	p := of(files)
	if got := slices.Sorted(maps.Keys(unpack(t, must(p.Context(images.Network{}))))); !slices.Equal(got, []string{
		"Dockerfile", "args", "fetch.sh", "network/ca.pem", "network/env", "source/.npmrc", "source/package-lock.json", "source/package.json",
	}) {
		t.Errorf("it is made of %q", got)
	}
	files["a.js"] = "2"
	if again := of(files); again.Tag() != p.Tag() {
		t.Error("another file gives it another tag")
	}
	files["package-lock.json"] = `{"lockfileVersion": 3}`
	if other := of(files); other.Tag() == p.Tag() {
		t.Error("another lock gives it the same tag")
	}
	own := source(t, project(t, files), mcpconfig.Build{})
	if c := must(own.Context(images.Network{})); c.Args["PACKAGES"] != own.Packages.Tag() || c.Args["BASE"] != images.DefaultNPM {
		t.Errorf("arguments %v", c.Args)
	}
}

// TestSource_Args holds that variables of a build are text to the shell that sets them, and what
// a Dockerfile has as arguments.
func TestSource_Args(t *testing.T) {
	build := mcpconfig.Build{Args: map[string]string{"A": "'; reboot #\n$(reboot)"}}
	files := unpack(t, must(source(t, project(t, map[string]string{"go.mod": ""}), build).Context(images.Network{})))
	if want := "export A=''\\''; reboot #\n$(reboot)'\n"; files["args"] != want {
		t.Errorf("%q", files["args"])
	}
	c := must(source(t, project(t, map[string]string{"Dockerfile": "FROM x"}), build).Context(images.Network{Proxy: map[string]string{"HTTP_PROXY": "p"}}))
	if diff := cmp.Diff(map[string]string{"A": build.Args["A"], "HTTP_PROXY": "p"}, c.Args); diff != "" {
		t.Error(diff)
	}
}

func TestSource_Mistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		build mcpconfig.Build
		want  string
	}{
		"link out":      {map[string]string{"go.mod": "", "sub/l": "->../../x"}, mcpconfig.Build{}, "the link sub/l leads out of it, to ../../x; replace it"},
		"absolute link": {map[string]string{"Dockerfile": "", "l": "->/etc/passwd"}, mcpconfig.Build{}, "the link l leads out of it, to /etc/passwd"},
		"nothing":       {map[string]string{"a": ""}, mcpconfig.Build{}, "has no Dockerfile, and no package.json, go.mod"},
		"two":           {map[string]string{"go.mod": "", "package.json": ""}, mcpconfig.Build{}, "has package.json and go.mod, and no Dockerfile"},
		"no file":       {map[string]string{"go.mod": ""}, mcpconfig.Build{Dockerfile: "it"}, "has no file it"},
		"target":        {map[string]string{"go.mod": ""}, mcpconfig.Build{Target: "t"}, "target is a stage of a Dockerfile"},
		"in .git":       {map[string]string{".git/Dockerfile": "FROM x", "go.mod": ""}, mcpconfig.Build{}, "never enters a build"},
		"bad pattern":   {map[string]string{"go.mod": "", ".dockerignore": "[a"}, mcpconfig.Build{}, "has an invalid pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := project(t, tc.files)
			if name == "in .git" {
				dir = filepath.Join(dir, ".git")
			}
			_, err := images.ReadSource(dir, tc.build, images.Bases{}, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	ignored := project(t, map[string]string{"go.mod": "", "l": "->/etc/passwd", ".dockerignore": "l"})
	if files := unpack(t, must(source(t, ignored, mcpconfig.Build{}).Context(images.Network{}))); files["source/go.mod"] != "" {
		t.Error(files)
	}
}

const labels = "ARG WAZA_RUN\nLABEL waza.run=${WAZA_RUN}\n"

// TestSource_Stages holds that every stage of a Dockerfile can be found by its run.
func TestSource_Stages(t *testing.T) {
	for in, want := range map[string]string{
		"FROM a": "FROM a\n" + labels,
		"# c\nARG B=1\nfrom ${B} as x\nRUN echo \\\n# c\n\n  FROM y\n FROM \\\n  z\nCMD [\"a\"]\n": "# c\nARG B=1\nfrom ${B} as x\n" + labels + "RUN echo \\\n# c\n\n  FROM y\n FROM \\\n  z\n" + labels + "CMD [\"a\"]\n",
		"# escape=`\r\nFROM a`\r\nb\r\n": "# escape=`\r\nFROM a`\r\nb\r\n" + labels,
	} {
		got := unpack(t, must(source(t, project(t, map[string]string{"Dockerfile": in}), mcpconfig.Build{}).Context(images.Network{})))["Dockerfile"]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}

// FuzzSource_Stages has a stranger's Dockerfile and .dockerignore read: nothing of the Dockerfile is lost.
func FuzzSource_Stages(f *testing.F) {
	f.Add("FROM a\nRUN b \\\n FROM c\n", "*\n!a\n")
	f.Add("# escape=`\nFROM a `\n", "**/[a-]\n")
	f.Fuzz(func(t *testing.T, dockerfile, ignore string) {
		s, err := images.ReadSource(project(t, map[string]string{"Dockerfile": strings.TrimPrefix(dockerfile, "->") + "\n", ".dockerignore": strings.TrimPrefix(ignore, "->")}), mcpconfig.Build{}, images.Bases{}, nil)
		if err != nil {
			return
		}
		got := unpack(t, must(s.Context(images.Network{})))["Dockerfile"]
		if strings.ReplaceAll(got, labels, "") != strings.ReplaceAll(dockerfile+"\n", labels, "") {
			t.Errorf("%q became %q", dockerfile, got)
		}
	})
}
