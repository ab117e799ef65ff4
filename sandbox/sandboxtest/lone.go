package sandboxtest

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"

	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/internal/tree/treetest"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// lone tests a sandbox without servers, as for graders' programs: it has a copy of another
// workspace, and changes do not affect the original.
func (s *suite) lone(t *testing.T) {
	spec := s.spec(t)
	first := s.standWith(t, spec)
	put(t, first, sandbox.WorkspaceDir, treetest.Entry{Name: "note", Content: "left"})
	var frozen bytes.Buffer
	if err := first.Collect(within(t), sandbox.Agent, sandbox.WorkspaceDir, &frozen); err != nil {
		t.Fatal(err)
	}
	other := *spec
	other.Task, other.Reach = spec.Task+".grader1.", nil
	other.Containers = []sandbox.ContainerSpec{sandbox.AgentContainer(s.Container, "tmpfs", string(mcpconfig.Render(nil)))}
	if other.Network != sandbox.NetworkNone {
		other.Network = sandbox.NetworkAirtight
	}
	lone := s.standWith(t, &other)
	if err := lone.Put(within(t), sandbox.Agent, sandbox.WorkspaceDir, &frozen); err != nil {
		t.Fatal(err)
	}
	place := lone.Layout(sandbox.Agent).At(sandbox.WorkspaceDir + "/note")
	if got := s.say(t, lone, sandbox.Agent, "read", place); got != "left" {
		t.Errorf("the lone container has %q of the workspace", got)
	}
	put(t, lone, sandbox.WorkspaceDir, treetest.Entry{Name: "note", Content: "changed"})
	sameTree(t, collect(t, first), map[string]string{"note": "left"})
}

// find tests reading single paths.
func (s *suite) find(t *testing.T) {
	sb := s.stand(t)
	finder, ok := sb.(sandbox.Contained)
	if !ok {
		t.Skip("the backend looks into no container but the agent's")
	}
	content := treetest.Tar(t, 0o644,
		treetest.Entry{Name: "d/file", Content: "x"},
		treetest.Entry{Name: "link", Kind: tar.TypeSymlink, Link: "d"},
	)
	if err := sb.Put(within(t), "one", "/tmp", bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		name    string
		kind    byte
		content string
	}{
		"/tmp/d/file":    {"tmp/d/file", tar.TypeReg, "x"},
		"/tmp/d":         {"tmp/d/", tar.TypeDir, ""},
		"/tmp/link":      {"tmp/link", tar.TypeSymlink, ""},
		"/tmp/link/file": {"tmp/link", tar.TypeSymlink, ""},
		"/tmp/d/file/x":  {},
		"/nothing/at/it": {},
	} {
		var found bytes.Buffer
		if err := finder.Find(within(t), "one", path, &found); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		entries := 0
		for e, err := range tree.Entries(&found) {
			if err != nil {
				t.Errorf("%s: %v", path, err)
				break
			}
			entries++
			if data, err := io.ReadAll(e.Content); e.Name != want.name || e.Typeflag != want.kind || string(data) != want.content || err != nil {
				t.Errorf("%s: %s, %c, %q, %v; want %+v", path, e.Name, e.Typeflag, data, err, want)
			}
		}
		if wanted := min(len(want.name), 1); entries != wanted {
			t.Errorf("%s: there are %d entries, want %d", path, entries, wanted)
		}
	}
	if err := finder.Find(within(t), "nobody", "/tmp", io.Discard); err == nil {
		t.Error("a container that is not there is looked into")
	}
}
