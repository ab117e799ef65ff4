package sandboxtest

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

	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/internal/tree/treetest"
	"github.com/waza-isolate/waza/sandbox"
)

func put(t *testing.T, sb sandbox.Sandbox, dir string, files ...treetest.Entry) {
	t.Helper()
	if err := sb.Put(within(t), sandbox.Agent, dir, bytes.NewReader(treetest.Tar(t, 0o755, files...))); err != nil {
		t.Fatal(err)
	}
}

// collect returns the files of the workspace by name, with links as "-> target".
func collect(t *testing.T, sb sandbox.Sandbox) map[string]string {
	t.Helper()
	var out bytes.Buffer
	if err := sb.Collect(within(t), sandbox.Agent, sandbox.WorkspaceDir, &out); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for e, err := range tree.Entries(&out) {
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(e.Content)
		if err != nil {
			t.Fatal(err)
		}
		found[e.Name] = string(content)
		if e.Kind() == tree.Link {
			found[e.Name] = "-> " + e.Linkname
		}
	}
	return found
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
	sb := s.stand(t)
	big := strings.Repeat("0123456789abcdef", 64<<10)
	put(t, sb, sandbox.WorkspaceDir,
		treetest.Entry{Name: "a.txt", Content: "a"}, treetest.Entry{Name: "deep/er/b.bin", Content: big}, treetest.Entry{Name: "empty/", Kind: tar.TypeDir},
		treetest.Entry{Name: "link", Kind: tar.TypeSymlink, Link: "a.txt"})
	put(t, sb, sandbox.WorkspaceDir, treetest.Entry{Name: "a.txt", Content: "again"})
	workspace := sb.Layout(sandbox.Agent).Workspace
	if got := s.say(t, sb, sandbox.Agent, "read", workspace+"/link"); got != "again" {
		t.Errorf("the agent reads %q", got)
	}
	sameTree(t, collect(t, sb), map[string]string{
		"a.txt": "again", "deep/": "", "deep/er/": "", "deep/er/b.bin": big, "empty/": "", "link": "-> a.txt",
	})
}

func (s *suite) hostileTar(t *testing.T) {
	sb := s.stand(t)
	for name, content := range map[string][]byte{
		"leads out":          treetest.Tar(t, 0o755, treetest.Entry{Name: "../out", Content: "x"}),
		"leads out, deeply":  treetest.Tar(t, 0o755, treetest.Entry{Name: "a/../../out", Content: "x"}),
		"absolute":           treetest.Tar(t, 0o755, treetest.Entry{Name: "/out", Content: "x"}),
		"through a link":     treetest.Tar(t, 0o755, treetest.Entry{Name: "up", Kind: tar.TypeSymlink, Link: ".."}, treetest.Entry{Name: "up/out", Content: "x"}),
		"through a far link": treetest.Tar(t, 0o755, treetest.Entry{Name: "far", Kind: tar.TypeSymlink, Link: os.TempDir()}, treetest.Entry{Name: "far/out", Content: "x"}),
		"a device":           treetest.Tar(t, 0o755, treetest.Entry{Name: "dev", Kind: tar.TypeBlock}),
		"a hard link":        treetest.Tar(t, 0o755, treetest.Entry{Name: "hard", Kind: tar.TypeLink, Link: "/etc/passwd"}),
		"no tar":             []byte(strings.Repeat("no tar ", 1000)),
		"cut off":            treetest.Tar(t, 0o755, treetest.Entry{Name: "a", Content: strings.Repeat("x", 2000)})[:1000],
	} {
		if err := sb.Put(within(t), sandbox.Agent, sandbox.WorkspaceDir, bytes.NewReader(content)); err == nil {
			t.Errorf("%s: was put", name)
		}
	}
	for name := range collect(t, sb) {
		if strings.Contains(name, "out") {
			t.Errorf("%s came of it", name)
		}
	}
	for _, dir := range []string{"/nonexistent", "/proc", sandbox.WorkspaceDir + "/nonexistent"} {
		if err := sb.Put(within(t), sandbox.Agent, dir, bytes.NewReader(treetest.Tar(t, 0o755, treetest.Entry{Name: "x"}))); err == nil {
			t.Errorf("a file was put into %s", dir)
		}
	}
}

// hostileTree checks that files are collected as they are, and links not followed.
func (s *suite) hostileTree(t *testing.T) {
	sb := s.stand(t)
	s.say(t, sb, sandbox.Agent, "tree", sb.Layout(sandbox.Agent).Workspace)
	sameTree(t, collect(t, sb), map[string]string{
		"deep/": "", "deep/er/": "", "deep/er/file": "content", "absolute": "-> /etc/passwd", "out": "-> ../../../../../../etc",
		"loop": "-> loop", "pipe": "", "locked/": "", "locked/secret": "hidden", "back\\slash\nand line": "odd",
	})
}

func (s *suite) configLinks(t *testing.T) {
	sb := s.stand(t)
	config := sb.Layout(sandbox.Agent).MCPConfig
	put(t, sb, sandbox.WorkspaceDir,
		treetest.Entry{Name: ".mcp.json", Kind: tar.TypeSymlink, Link: config}, treetest.Entry{Name: ".copilot/mcp.json", Kind: tar.TypeSymlink, Link: config},
		treetest.Entry{Name: "kept", Content: "x"})
	workspace := sb.Layout(sandbox.Agent).Workspace
	for _, link := range []string{"/.mcp.json", "/.copilot/mcp.json"} {
		if got := s.say(t, sb, sandbox.Agent, "read", workspace+link); !strings.Contains(got, "mcpServers") {
			t.Errorf("through %s the agent reads %q", link, got)
		}
	}
	sameTree(t, collect(t, sb), map[string]string{"kept": "x"})
}

// swapped checks that nothing is collected through a link that a program has put in place of
// the workspace.
func (s *suite) swapped(t *testing.T) {
	sb := s.stand(t)
	workspace := sb.Layout(sandbox.Agent).Workspace
	if e := s.run(t, sb, sandbox.Agent, "swap", workspace, "/etc"); e.exit.Code != 0 {
		sameTree(t, collect(t, sb), map[string]string{}) // not permitted
		return
	}
	var out bytes.Buffer
	if err := sb.Collect(within(t), sandbox.Agent, sandbox.WorkspaceDir, &out); !errors.Is(err, sandbox.ErrUnreadable) {
		t.Errorf("%d bytes were collected through a link: %v", out.Len(), err)
	}
	if err := sb.Put(within(t), sandbox.Agent, sandbox.WorkspaceDir, bytes.NewReader(treetest.Tar(t, 0o755, treetest.Entry{Name: "x"}))); err == nil {
		t.Error("a file was put through a link")
	}
}

// closedPlace checks that a workspace whose permissions a program has removed is collected, and
// that this is reported.
func (s *suite) closedPlace(t *testing.T) {
	sb := s.stand(t)
	put(t, sb, sandbox.WorkspaceDir, treetest.Entry{Name: "in/side", Content: "x"})
	if e := s.run(t, sb, sandbox.Agent, "close", sb.Layout(sandbox.Agent).Workspace); e.exit.Code != 0 {
		sameTree(t, collect(t, sb), map[string]string{"in/": "", "in/side": "x"}) // not permitted
		return
	}
	sameTree(t, collect(t, sb), map[string]string{"./": "", "in/": "", "in/side": "x"})
}

func (s *suite) collectFails(t *testing.T) {
	sb := s.stand(t)
	put(t, sb, sandbox.WorkspaceDir, treetest.Entry{Name: "big", Content: strings.Repeat("x", 2<<20)})
	if err := sb.Collect(within(t), sandbox.Agent, sandbox.WorkspaceDir, full{}); !errors.Is(err, errFull) {
		t.Errorf("collected into a full file: %v", err)
	}
	if err := sb.Collect(within(t), sandbox.Agent, "/nonexistent", io.Discard); err == nil {
		t.Error("a directory that is not there was collected")
	}
	if got := collect(t, sb); len(got) != 1 {
		t.Errorf("after that, %d entries", len(got))
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
