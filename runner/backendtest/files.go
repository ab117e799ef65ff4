package backendtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/runner"
)

// file is an entry of a tar; a regular file where kind is not set.
type file struct {
	name, content, link string
	kind                byte
}

func tarOf(t *testing.T, files ...file) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if f.kind == 0 {
			f.kind = tar.TypeReg
		}
		header := &tar.Header{Name: f.name, Typeflag: f.kind, Linkname: f.link, Mode: 0o755, Size: int64(len(f.content))}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func put(t *testing.T, sandbox runner.Sandbox, dir string, files ...file) {
	t.Helper()
	if err := sandbox.Put(within(t), runner.AgentBox, dir, bytes.NewReader(tarOf(t, files...))); err != nil {
		t.Fatal(err)
	}
}

// collect is what the workspace holds: content by name, links as "-> target".
func collect(t *testing.T, sandbox runner.Sandbox) map[string]string {
	t.Helper()
	var out bytes.Buffer
	if err := sandbox.Collect(within(t), runner.AgentBox, runner.WorkspaceDir, &out); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for in := tar.NewReader(&out); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = string(content)
		if header.Typeflag == tar.TypeSymlink {
			found[header.Name] = "-> " + header.Linkname
		}
	}
}

func sameTree(t *testing.T, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("collected %q, want %q", shortened(got), shortened(want))
	}
}

func shortened(tree map[string]string) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		lines = append(lines, name+"="+tree[name][:min(len(tree[name]), 40)])
	}
	return lines
}

func (s *suite) files(t *testing.T) {
	sandbox := s.stand(t)
	big := strings.Repeat("0123456789abcdef", 64<<10)
	put(t, sandbox, runner.WorkspaceDir,
		file{name: "a.txt", content: "a"}, file{name: "deep/er/b.bin", content: big}, file{name: "empty/", kind: tar.TypeDir},
		file{name: "link", kind: tar.TypeSymlink, link: "a.txt"})
	put(t, sandbox, runner.WorkspaceDir, file{name: "a.txt", content: "again"})
	workspace := sandbox.Layout(runner.AgentBox).Workspace
	if got := s.say(t, sandbox, runner.AgentBox, "read", workspace+"/link"); got != "again" {
		t.Errorf("the agent reads %q", got)
	}
	sameTree(t, collect(t, sandbox), map[string]string{
		"a.txt": "again", "deep/": "", "deep/er/": "", "deep/er/b.bin": big, "empty/": "", "link": "-> a.txt",
	})
}

func (s *suite) hostileTar(t *testing.T) {
	sandbox := s.stand(t)
	for name, content := range map[string][]byte{
		"leads out":          tarOf(t, file{name: "../out", content: "x"}),
		"leads out, deeply":  tarOf(t, file{name: "a/../../out", content: "x"}),
		"absolute":           tarOf(t, file{name: "/out", content: "x"}),
		"through a link":     tarOf(t, file{name: "up", kind: tar.TypeSymlink, link: ".."}, file{name: "up/out", content: "x"}),
		"through a far link": tarOf(t, file{name: "far", kind: tar.TypeSymlink, link: os.TempDir()}, file{name: "far/out", content: "x"}),
		"a device":           tarOf(t, file{name: "dev", kind: tar.TypeBlock}),
		"a hard link":        tarOf(t, file{name: "hard", kind: tar.TypeLink, link: "/etc/passwd"}),
		"no tar":             []byte(strings.Repeat("no tar ", 1000)),
		"cut off":            tarOf(t, file{name: "a", content: strings.Repeat("x", 2000)})[:1000],
	} {
		if err := sandbox.Put(within(t), runner.AgentBox, runner.WorkspaceDir, bytes.NewReader(content)); err == nil {
			t.Errorf("%s: was put", name)
		}
	}
	for name := range collect(t, sandbox) {
		if strings.Contains(name, "out") {
			t.Errorf("%s came of it", name)
		}
	}
	for _, dir := range []string{"/nonexistent", "/proc", runner.WorkspaceDir + "/nonexistent"} {
		if err := sandbox.Put(within(t), runner.AgentBox, dir, bytes.NewReader(tarOf(t, file{name: "x"}))); err == nil {
			t.Errorf("a file was put into %s", dir)
		}
	}
}

// What a program leaves is told as it is, and never followed.
func (s *suite) hostileTree(t *testing.T) {
	sandbox := s.stand(t)
	s.say(t, sandbox, runner.AgentBox, "tree", sandbox.Layout(runner.AgentBox).Workspace)
	sameTree(t, collect(t, sandbox), map[string]string{
		"deep/": "", "deep/er/": "", "deep/er/file": "content", "absolute": "-> /etc/passwd", "out": "-> ../../../../../../etc",
		"loop": "-> loop", "pipe": "", "locked/": "", "locked/secret": "hidden", "back\\slash\nand line": "odd",
	})
}

func (s *suite) configLinks(t *testing.T) {
	sandbox := s.stand(t)
	config := sandbox.Layout(runner.AgentBox).MCPConfig
	put(t, sandbox, runner.WorkspaceDir,
		file{name: ".mcp.json", kind: tar.TypeSymlink, link: config}, file{name: ".copilot/mcp.json", kind: tar.TypeSymlink, link: config},
		file{name: "kept", content: "x"})
	workspace := sandbox.Layout(runner.AgentBox).Workspace
	for _, link := range []string{"/.mcp.json", "/.copilot/mcp.json"} {
		if got := s.say(t, sandbox, runner.AgentBox, "read", workspace+link); !strings.Contains(got, "mcpServers") {
			t.Errorf("through %s the agent reads %q", link, got)
		}
	}
	sameTree(t, collect(t, sandbox), map[string]string{"kept": "x"})
}

// A program that puts a link in the place of the workspace has nothing else
// collected.
func (s *suite) swapped(t *testing.T) {
	sandbox := s.stand(t)
	workspace := sandbox.Layout(runner.AgentBox).Workspace
	if e := s.run(t, sandbox, runner.AgentBox, "swap", workspace, "/etc"); e.exit.Code != 0 {
		sameTree(t, collect(t, sandbox), map[string]string{}) // it may not
		return
	}
	var out bytes.Buffer
	if err := sandbox.Collect(within(t), runner.AgentBox, runner.WorkspaceDir, &out); err == nil {
		t.Errorf("%d bytes were collected through a link", out.Len())
	}
	if err := sandbox.Put(within(t), runner.AgentBox, runner.WorkspaceDir, bytes.NewReader(tarOf(t, file{name: "x"}))); err == nil {
		t.Error("a file was put through a link")
	}
}

func (s *suite) collectFails(t *testing.T) {
	sandbox := s.stand(t)
	put(t, sandbox, runner.WorkspaceDir, file{name: "big", content: strings.Repeat("x", 2<<20)})
	if err := sandbox.Collect(within(t), runner.AgentBox, runner.WorkspaceDir, full{}); !errors.Is(err, errFull) {
		t.Errorf("collected into a full file: %v", err)
	}
	if err := sandbox.Collect(within(t), runner.AgentBox, "/nonexistent", io.Discard); err == nil {
		t.Error("a directory that is not there was collected")
	}
	if got := collect(t, sandbox); len(got) != 1 {
		t.Errorf("after that, %d entries", len(got))
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
