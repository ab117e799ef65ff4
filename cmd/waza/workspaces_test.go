package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/pypitest"
)

// squatted is a registry of npm, an index of Python and a proxy of Go's modules, where strangers
// have taken the name shared.
type squatted struct {
	address string
	mu      sync.Mutex
	asked   []string
}

// serveSquatted serves squatted at an address of this machine that builds can reach.
func serveSquatted(t *testing.T) *squatted {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(dockertest.Gateway(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &squatted{address: "http://" + ln.Addr().String()}
	server := httptest.NewUnstartedServer(s)
	_ = server.Listener.Close()
	server.Listener = ln
	server.Start()
	t.Cleanup(server.Close)
	return s
}

func (s *squatted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	s.mu.Unlock()
	wheels := []pypitest.Wheel{
		{Name: "shared", Version: "9.9", Module: "GREETING = 'STRANGER'\n"},
		{Name: "uv", Version: "9.9", Module: fakeUV, Program: true},
	}
	module := archiveOf(map[string]string{"package/package.json": `{"name": "shared", "version": "1.9.0"}`, "package/index.js": "exports.GREETING = 'STRANGER'"})
	switch r.URL.Path {
	case "/npm/shared":
		sum := sha512.Sum512(module)
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "shared", "dist-tags": map[string]string{"latest": "1.9.0"}, "versions": map[string]any{"1.9.0": map[string]any{
			"name": "shared", "version": "1.9.0", "dist": map[string]string{"tarball": s.address + "/npm/shared.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])},
		}}})
		return
	case "/npm/shared.tgz":
		_, _ = w.Write(module)
		return
	}
	for _, wheel := range wheels {
		file := fmt.Sprintf("/whl/%s-%s-py3-none-any.whl", wheel.Name, wheel.Version)
		switch r.URL.Path {
		case "/simple/" + wheel.Name + "/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, "<a href=%q>%s</a>", file, strings.TrimPrefix(file, "/whl/"))
			return
		case file:
			_, _ = w.Write(wheel.Bytes())
			return
		}
	}
	http.NotFound(w, r)
}

// of returns what was asked about the package shared.
func (s *squatted) of() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.asked), func(path string) bool { return !strings.Contains(path, "shared") })
}

func archiveOf(files map[string]string) []byte {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for name, content := range files {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}) // a Buffer never fails
		_, _ = w.Write([]byte(content))
	}
	_, _ = w.Close(), zipped.Close()
	return out.Bytes()
}

// fakeUV does what uv does with a workspace's member here: it installs the other member from its directory.
const fakeUV = `
import os, pathlib, shutil, subprocess, sys
def main():
    venv = os.environ["UV_PROJECT_ENVIRONMENT"]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    at = pathlib.Path.cwd()
    while not (at / "shared").exists():
        at = at.parent
    site = next(pathlib.Path(venv).glob("lib/*/site-packages"))
    shutil.copy(at / "shared" / "shared.py", site)
`

const workspaces = `
-- .git/HEAD --
ref: refs/heads/main
-- npm/package.json --
{"private": true, "workspaces": ["server", "shared"]}
-- npm/server/package.json --
{"name": "server", "version": "1.0.0", "private": true, "main": "greeter.js", "dependencies": {"shared": "^1.0.0"}}
-- npm/shared/package.json --
{"name": "shared", "version": "1.0.0", "private": true, "main": "built.js", "scripts": {"build": "echo 'exports.GREETING = \"OURS\"' > built.js"}}
-- npm/server/alone.Dockerfile --
FROM node:24-bookworm-slim
ARG NPM_CONFIG_REGISTRY
WORKDIR /srv
COPY . .
RUN npm install --no-update-notifier --no-audit
CMD ["node", "greeter.js"]
-- uv/pyproject.toml --
[project]
name = "all"
version = "0"
[tool.uv.workspace]
members = ["server", "shared"]
-- uv/server/pyproject.toml --
[project]
name = "server"
version = "0"
dependencies = ["shared"]
[tool.uv.sources]
shared = {workspace = true}
-- uv/shared/shared.py --
GREETING = "OURS"
-- go/go.work --
go 1.26
use (
	./server
	./shared
)
-- go/server/go.mod --
module corp.example/server
go 1.26
require corp.example/shared v1.0.0
-- go/shared/go.mod --
module corp.example/shared
go 1.26
-- go/shared/shared.go --
package shared
const Greeting = "OURS"
-- alone.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers:
    server: {build: {context: npm/server, dockerfile: alone.Dockerfile, args: {NPM_CONFIG_REGISTRY: ADDRESS}}}
tasks: [alone-task.yaml]
-- alone-task.yaml --
id: greet
inputs: {prompt: p}
script:
  - call: {server: server, tool: greet}
    as: it
  - say: "{{ it.text }}"
expected: {output_contains: [STRANGER]}
`

// TestImages_Workspace builds packages of workspaces, which need a package that is only there. What a
// registry has under its name is neither asked for nor installed, until a Dockerfile builds the
// package alone.
func TestImages_Workspace(t *testing.T) {
	t.Parallel()
	registry := serveSquatted(t)
	p := newProject(t, strings.ReplaceAll(workspaces, "ADDRESS", registry.address+"/npm/"), images.DefaultNPM, images.DefaultGo, images.DefaultPyPI)
	p.env = append(p.env, "NPM_CONFIG_REGISTRY="+registry.address+"/npm/", "PIP_INDEX_URL="+registry.address+"/simple/", "PIP_TRUSTED_HOST="+dockertest.Gateway(t), "GOPROXY="+registry.address+"/go", "GOSUMDB=off")
	for to, from := range map[string]struct{ file, old, new, begin string }{
		"npm/server/greeter.js": {"node/greeter.js", `"hello from Node.js"`, "GREETING", "const { GREETING } = require(\"shared\");\n"},
		"uv/server/server.py":   {"python/server.py", `"hello from Python"`, "GREETING", "from shared import GREETING\n"},
		"go/server/main.go":     {"go/cmd/greeter/main.go", "hello from Go", "` + shared.Greeting + `", ""},
	} {
		data, err := os.ReadFile("testdata/source/" + from.file)
		if err != nil {
			t.Fatal(err)
		}
		content := strings.NewReplacer(from.old, from.new, "require(\"ssh2\"); //", "//", "import (\n", "import (\n\"corp.example/shared\"\n").Replace(string(data))
		p.write(to, from.begin+content)
	}
	t.Cleanup(func() {
		listed := p.start("images", "list").wait(exitOK).stdout.String()
		for _, line := range regexp.MustCompile(`(?m)^source .*`+p.dir).FindAllString(listed, -1) {
			dockertest.DropImage(t, strings.Fields(line)[1])
		}
	})
	for _, of := range []string{"npm", "uv", "go"} {
		p.write(of+"/stamp", p.name) // so that no other run has built the same
		said := p.start("init", "--no-run", "--no-ci", of+"/server").wait(exitOK).stderr.String()
		told, building := strings.Index(said, of+"/server belongs to the workspace of "), strings.Index(said, "building image for the source in "+of+", with packages from "+registry.address)
		if told < 0 || building < told {
			t.Errorf("%s: it says\n%s", of, said)
		}
		if task := p.read(of, "server", "tasks", "write-greet.yaml"); !strings.Contains(task, "OURS") {
			t.Errorf("%s: the task is\n%s", of, task)
		}
		if asked := registry.of(); len(asked) > 0 {
			t.Errorf("%s: a registry was asked for %q", of, asked)
		}
	}
	p.start("run", "--isolate", "alone.yaml").wait(exitOK)
	if asked := registry.of(); len(asked) == 0 {
		t.Error("a package that is built alone asks no registry: is this test looking at anything?")
	}
}
