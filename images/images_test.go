package images_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
)

const platform = "linux/amd64"

const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// manifests are what npm and pip leave of the packages below.
const (
	npmManifest = `{"name": "x", "lockfileVersion": 3, "packages": {
		"": {"dependencies": {"@a/tool": "latest"}},
		"node_modules/@a/tool": {"version": "1.2.3", "resolved": "https://registry.example/tool.tgz", "integrity": "sha512-` + sum + `==",
			"bin": {"a-tool": "x.js", "other": "y.js", "../odd": "z.js"}, "dependencies": {"dep": "^1"}, "funding": "https://f.example", "engines": {"node": ">=20"}},
		"node_modules/dep": {"version": "1.0.0", "resolved": "https://registry.example/dep.tgz", "integrity": "sha512-` + sum + `==",
			"bin": "cli.js", "os": "linux", "cpu": ["x64"], "bundleDependencies": true, "peerDependencies": {"p": "*"}, "peerDependenciesMeta": {"p": {"optional": true, "x": 1}}},
		"node_modules/dep/node_modules/in": {"version": "2.0.0", "inBundle": true}
	}}`
	pypiManifest = `{"version": "1", "install": [
		{"download_info": {"url": "https://index.example/t.whl", "archive_info": {"hashes": {"sha256": "` + sum + `"}}}, "metadata": {"name": "My_Tool", "version": "1.0"}},
		{"download_info": {"archive_info": {"hash": "sha256=` + sum + `"}}, "metadata": {"name": "a-dep", "version": "2!3.0+x"}}
	]}`
)

func imageOf(t testing.TB, lock *images.Lock, command string, args ...string) images.Image {
	t.Helper()
	p, ok, err := mcpconfig.ReadPackage("s", mcpconfig.Server{Command: command, Args: args})
	if err != nil || !ok {
		t.Fatalf("%s %q: %t, %v", command, args, ok, err)
	}
	return images.New(p, images.Bases{}, lock, platform)
}

// resolved is an image with its lock.
func resolved(t testing.TB, manifest, command string, args ...string) (images.Image, *images.Lock) {
	t.Helper()
	i := imageOf(t, nil, command, args...)
	entry, err := i.ReadManifest([]byte(manifest), platform)
	if err != nil {
		t.Fatal(err)
	}
	lock := (*images.Lock)(nil).With(entry)
	return imageOf(t, lock, command, args...), lock
}

func TestLockRoundTrip(t *testing.T) {
	_, npm := resolved(t, npmManifest, "npx", "@a/tool")
	i, pypi := resolved(t, pypiManifest, "uvx", "my-tool")
	again, err := images.ParseLock(pypi.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	entry, err := imageOf(t, nil, "npx", "@a/tool").ReadManifest([]byte(npmManifest), platform)
	if err != nil {
		t.Fatal(err)
	}
	both := again.Fill([]images.Entry{entry, *i.Entry})
	if both.Len() != 2 {
		t.Fatalf("%d entries", both.Len())
	}
	parsed, err := images.ParseLock(both.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(both.Bytes()), string(parsed.Bytes())); diff != "" {
		t.Error(diff)
	}
	text := string(both.Bytes())
	for _, lost := range []string{"example", "resolved", "odd", "funding"} {
		if strings.Contains(text, lost) {
			t.Errorf("the lock holds %q: %s", lost, text)
		}
	}
	for _, kept := range []string{`"dep": "cli.js"`, `"inBundle": true`, `"optional": true`, `"2!3.0+x"`, `"linux/amd64"`} {
		if !strings.Contains(text, kept) {
			t.Errorf("the lock lacks %q: %s", kept, text)
		}
	}
	one, _, _ := mcpconfig.ReadPackage("s", mcpconfig.Server{Command: "npx", Args: []string{"@a/tool"}})
	if diff := cmp.Diff(string(npm.Bytes()), string(both.Only([]mcpconfig.Package{one}).Bytes())); diff != "" {
		t.Error(diff)
	}
}

func TestTag(t *testing.T) {
	if tag := imageOf(t, nil, "npx", "@a/tool").Tag(); tag != "" {
		t.Errorf("not resolved, and has the tag %s", tag)
	}
	i, lock := resolved(t, npmManifest, "npx", "-y", "@a/tool")
	same := imageOf(t, lock, "npx", "@a/tool", "--argument", "${OF_ITS_OWN}")
	if i.Tag() == "" || i.Tag() != same.Tag() || i.String() != "npm:@a/tool@1.2.3" {
		t.Errorf("%s: %s and %s", i, i.Tag(), same.Tag())
	}
	other := i
	other.Base = "node:26"
	newer, _ := resolved(t, strings.Replace(npmManifest, `"version": "1.0.0"`, `"version": "1.0.1"`, 1), "npx", "@a/tool")
	if i.Tag() == other.Tag() || i.Tag() == newer.Tag() {
		t.Error("another base or dependency has the same tag")
	}
}

// A build says which hosts it gets packages from, and not what may be a login.
func TestRegistry(t *testing.T) {
	t.Parallel()
	n := images.Network{Env: map[string]string{"NPM_CONFIG_REGISTRY": "https://u:p@r.example/token/", "PIP_INDEX_URL": "u:p@r.example", "PIP_EXTRA_INDEX_URL": "https://token@a.example?token https://b.example:8443"}}
	for want, i := range map[string]images.Image{
		"https://r.example/": imageOf(t, nil, "npx", "x"),
		"an address that is not a URL and https://a.example/ and https://b.example:8443/": imageOf(t, nil, "uvx", "x"),
	} {
		if got := i.Registry(n); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := imageOf(t, nil, "npx", "x").Registry(images.Network{}); got != "npm's own registry" {
		t.Error(got)
	}
}

// What a build needs of the network is in its context, and decides nothing.
func TestContext(t *testing.T) {
	for setting, i := range map[string]images.Image{"NPM_CONFIG_REGISTRY": first(resolved(t, npmManifest, "npx", "@a/tool")), "PIP_INDEX_URL": first(resolved(t, pypiManifest, "uvx", "my-tool"))} {
		tag := i.Tag()
		c, err := i.Context(images.Network{
			CA: []byte("PEM"), Env: map[string]string{setting: "https://u:p'w@r.example/", "GOPROXY": "https://others.r.example/"}, Proxy: map[string]string{"HTTPS_PROXY": "http://p.example"},
		})
		if err != nil {
			t.Fatal(err)
		}
		files := unpack(t, c)
		want := []string{"export NODE_EXTRA_CA_CERTS='/network/ca.pem'\n", "export PIP_CERT='/network/ca.pem'\n", "export SSL_CERT_FILE='/network/ca.pem'\n", "export " + setting + "='https://u:p'\\''w@r.example/'\n"}
		slices.Sort(want)
		if files["network/env"] != strings.Join(want, "") {
			t.Errorf("env %q", files["network/env"])
		}
		if diff := cmp.Diff(map[string]string{"BASE": i.Base, "HTTPS_PROXY": "http://p.example"}, c.Args); diff != "" || i.Tag() != tag {
			t.Error(diff)
		}
		for name, content := range files {
			if name != "network/env" && strings.Contains(content, "r.example") {
				t.Errorf("%s holds the registry", name)
			}
		}
	}
	if _, err := imageOf(t, nil, "npx", "x").Context(images.Network{}); err == nil {
		t.Error("what is not resolved has a context")
	}
}

func first(i images.Image, _ *images.Lock) images.Image { return i }

func TestContextOfPackages(t *testing.T) {
	npm := unpack(t, must(first(resolved(t, npmManifest, "npx", "@a/tool@^1")).Context(images.Network{})))
	if !strings.Contains(npm["package.json"], `"@a/tool": "1.2.3"`) || !strings.Contains(npm["package-lock.json"], `"node_modules/dep/node_modules/in"`) {
		t.Errorf("%q", npm)
	}
	pypi, lock := resolved(t, pypiManifest, "uvx", "my-tool>=1")
	files := unpack(t, must(pypi.Context(images.Network{})))
	if want := "a-dep==2!3.0+x --hash=sha256:" + sum + "\nMy_Tool==1.0 --hash=sha256:" + sum + "\n"; files["requirements.txt"] != want || files["program"] != "my-tool" {
		t.Errorf("%q", files)
	}
	elsewhere := unpack(t, pypi.ResolveContext(lock, images.Network{}))
	if want := "a-dep==2!3.0+x\nMy_Tool==1.0\n"; elsewhere["constraints.txt"] != want || elsewhere["requirements.txt"] != "my-tool>=1\n" {
		t.Errorf("%q", elsewhere)
	}
	anew := unpack(t, imageOf(t, nil, "npx", "-p", "a@1.0.0", "-p", "b", "run").ResolveContext(nil, images.Network{}))
	if !strings.Contains(anew["package.json"], `"b": "latest"`) || !strings.Contains(anew["package.json"], `"a": "1.0.0"`) {
		t.Errorf("%q", anew)
	}
}

// Install scripts run as npm install runs them, and the wish for what npm found nowhere
// is no part of a lock, which npm ci would refuse.
func TestOptionalPackages(t *testing.T) {
	manifest := `{"packages": {
		"node_modules/a": {"version": "1.0.0", "integrity": "sha512-eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eA==", "hasInstallScript": true, "optionalDependencies": {"b": "1.0.0", "c": "1.0.0"}},
		"node_modules/a/node_modules/b": {"version": "1.0.0", "integrity": "sha512-eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eA==", "hasInstallScript": true, "optional": true},
		"node_modules/d": {"version": "1.0.0", "integrity": "sha512-eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eA=="}}}`
	pkg, err := mcpconfig.NPMPackages([]string{"a@1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	i := images.ForAgent(images.Agent{Name: "it"}, pkg, images.Bases{}, nil)
	entry, err := i.ReadManifest([]byte(manifest), platform)
	if err != nil {
		t.Fatal(err)
	}
	i.Entry = &entry
	files := unpack(t, must(i.Context(images.Network{})))
	const npm = "npm rebuild --no-update-notifier --loglevel=error -- "
	if want := npm + "a\n" + npm + "b || rm -rf node_modules/a/node_modules/b\n"; files["rebuild"] != want {
		t.Errorf("%q", files["rebuild"])
	}
	if lock := files["package-lock.json"]; strings.Contains(lock, `"c"`) || !strings.Contains(lock, `"b": "1.0.0"`) {
		t.Error(lock)
	}
}

func must(c images.Context, err error) images.Context {
	if err != nil {
		panic(err)
	}
	return c
}

func unpack(t *testing.T, c images.Context) map[string]string {
	t.Helper()
	files := map[string]string{}
	var data bytes.Buffer
	if err := c.Tar(&data); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(&data); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

func TestProgram(t *testing.T) {
	bins := func(bin string) string {
		return strings.Replace(npmManifest, `{"a-tool": "x.js", "other": "y.js", "../odd": "z.js"}`, bin, 1)
	}
	npx := []string{"@a/tool"}
	for name, tc := range map[string]struct {
		manifest string
		args     []string
		want     string
	}{
		"the only one":            {bins(`{"server": "x.js"}`), npx, "server"},
		"two names of one":        {bins(`{"zz": "x.js", "server": "x.js"}`), npx, "server"},
		"called like the package": {bins(`{"other": "x.js", "tool": "y.js"}`), npx, "tool"},
		"a path":                  {bins(`"x.js"`), npx, "tool"},
		"named":                   {npmManifest, []string{"-p", "@a/tool", "other"}, "other"},
		"neither":                 {npmManifest, npx, "has no program tool; it has a-tool, other: name one, as in args: [-p, @a/tool, a-tool]"},
		"named, and not there":    {npmManifest, []string{"-p", "@a/tool", "none"}, "has no program none; it has a-tool, other"},
		"none at all":             {bins(`{}`), npx, "has no program to run"},
	} {
		got, err := first(resolved(t, tc.manifest, "npx", tc.args...)).Program()
		if err == nil && got != "/opt/server/node_modules/.bin/"+tc.want || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := imageOf(t, nil, "uvx", "--from", "a", "run").Program(); err != nil || got != "/opt/server/bin/run" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestManifestsThatCannotBeLocked(t *testing.T) {
	for name, tc := range map[string]struct{ manifest, want string }{
		"no JSON":       {"{", "cannot be read"},
		"nothing":       {"{}", "incomplete entry"},
		"from git":      {strings.Replace(npmManifest, `"integrity"`, `"other"`, 2), "comes from no registry and cannot be locked"},
		"a link":        {strings.Replace(npmManifest, `"cpu"`, `"link": true, "cpu"`, 1), "comes from no registry"},
		"leads out":     {strings.Replace(npmManifest, `node_modules/dep"`, `node_modules/../x"`, 1), "not a path in node_modules"},
		"another one":   {strings.Replace(npmManifest, `node_modules/@a/tool"`, `node_modules/@a/none"`, 1), "not in its manifest"},
		"odd digest":    {strings.Replace(npmManifest, `sha512-`, `md5-`, 1), "no digest"},
		"not a version": {strings.Replace(npmManifest, `"version": "1.0.0"`, `"version": "1\n"`, 1), "no version"},
	} {
		if _, err := imageOf(t, nil, "npx", "@a/tool").ReadManifest([]byte(tc.manifest), platform); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("npm, %s: %v", name, err)
		}
	}
	for name, tc := range map[string]struct{ manifest, want string }{
		"no digest":   {strings.Replace(pypiManifest, sum, "", 1), "gives no SHA-256 for My_Tool"},
		"an option":   {strings.Replace(pypiManifest, "a-dep", "-r x", 1), "lacks a name"},
		"another one": {strings.Replace(pypiManifest, "My_Tool", "none", 1), "its version is missing"},
	} {
		if _, err := imageOf(t, nil, "uvx", "my-tool").ReadManifest([]byte(tc.manifest), platform); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("pypi, %s: %v", name, err)
		}
	}
}

// Lock files may come from untrusted repositories. FuzzParseLock checks that they contain
// only names, versions and digests for npm and pip.
func FuzzParseLock(f *testing.F) {
	_, npm := resolved(f, npmManifest, "npx", "@a/tool")
	_, pypi := resolved(f, pypiManifest, "uvx", "my-tool")
	f.Add(npm.Bytes())
	f.Add(pypi.Bytes())
	f.Add([]byte(`{"version": 1, "packages": []}`))
	f.Add([]byte(`{"version": 1, "packages": [], "catalogs": {"s": {"lists": {"tools": {"a": "` + digest + `"}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		lock, err := images.ParseLock(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
			return
		}
		again, err := images.ParseLock(lock.Bytes())
		if err != nil || !bytes.Equal(again.Bytes(), lock.Bytes()) {
			t.Fatalf("written and read again: %v", err)
		}
		for _, i := range []images.Image{imageOf(t, lock, "npx", "@a/tool"), imageOf(t, lock, "uvx", "my-tool")} {
			if i.Entry == nil {
				continue
			}
			c, err := i.Context(images.Network{})
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(unpack(t, c)["requirements.txt"]) {
				if !strings.Contains(line, " --hash=sha256:") || strings.Count(line, " ") != 1 || strings.HasPrefix(line, "-") {
					t.Errorf("requirement %q", line)
				}
			}
			if program, err := i.Program(); err == nil && !slices.Contains([]string{"/opt/server/bin", "/opt/server/node_modules/.bin"}, path.Dir(program)) {
				t.Errorf("program %q", program)
			}
		}
	})
}

func FuzzReadManifest(f *testing.F) {
	f.Add([]byte(npmManifest))
	f.Add([]byte(pypiManifest))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, i := range []images.Image{imageOf(t, nil, "npx", "@a/tool"), imageOf(t, nil, "uvx", "my-tool")} {
			e, err := i.ReadManifest(data, platform)
			if err != nil {
				continue
			}
			if _, err := images.ParseLock((*images.Lock)(nil).With(e).Bytes()); err != nil {
				t.Errorf("what was resolved is not a lock: %v", err)
			}
		}
	})
}

// What an image is made of and by is on it, so that one that nobody asks for any more is
// told from one of another base or of a user's own agent.
func TestIsCurrent(t *testing.T) {
	pkg, err := mcpconfig.NPMPackages([]string{"@a/tool@1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	_, lock := resolved(t, npmManifest, "npx", "@a/tool@1.2.3")
	agent := func(name, setup string) images.Image {
		return images.ForAgent(images.Agent{Name: name, Setup: setup}, pkg, images.Bases{NPM: "other"}, lock)
	}
	agents := []images.Image{agent("it", "true")}
	with := func(labels map[string]string, key, value string) map[string]string {
		labels[key] = value
		return labels
	}
	for name, tc := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"the agent's":         {agent("it", "true").Labels(), true},
		"another setup":       {agent("it", "false").Labels(), false},
		"another version":     {with(agent("it", "true").Labels(), images.LabelContent, "npm:@a/tool@1.0.0"), false},
		"somebody's agent":    {agent("mine", "false").Labels(), true},
		"another recipe":      {with(agent("mine", "").Labels(), images.LabelRecipe, "x"), false},
		"a package":           {imageOf(t, lock, "npx", "@a/tool@1.2.3").Labels(), true},
		"a package in Python": {first(resolved(t, pypiManifest, "uvx", "my-tool")).Labels(), true},
		"of an older waza":    {map[string]string{}, false},
	} {
		if got := images.IsCurrent(tc.labels, agents); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if a, b := agent("it", "true").Tag(), agent("it", "false").Tag(); a == b || !strings.HasPrefix(a, images.AgentRepository+":") {
		t.Errorf("%s and %s", a, b)
	}
}
