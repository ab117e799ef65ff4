package llm_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/internal/dockertest"
)

// results has the model use tools, one each turn of the list, and returns what it is told.
func results(t *testing.T, setup func(d *desk), uses ...use) ([]string, *desk) {
	t.Helper()
	for i := range uses {
		uses[i][0] = fmt.Sprintf("u%d", i)
	}
	model := newModel(t, asks(uses...), says("done"))
	d := newDesk(t, model)
	setup(d)
	d.mustRun(t)
	return model.last().results("tool"), d
}

func TestFiles(t *testing.T) {
	var deep string
	got, d := results(t, func(d *desk) {
		deep = filepath.Join(d.input.Workspace, "sub")
		if err := os.Mkdir(deep, 0o755); err != nil {
			t.Fatal(err)
		}
		d.input.Dir = deep
	},
		use{"", "write_file", `{"path":"a/b.txt","file_text":"one\ntwo\nthree\n"}`},
		use{"", "edit_file", `{"path":"a/b.txt","old_text":"two","new_text":"2"}`},
		use{"", "read_file", `{"path":"a/b.txt","offset":2,"limit":1}`},
		use{"", "edit_file", `{"path":"a/b.txt","old_text":"e","new_text":"E"}`},
		use{"", "list_files", `{}`},
		use{"", "read_file", `{"path":"a/none.txt"}`},
	)
	want := []string{"15 bytes are written to sub/a/b.txt"}
	if content, err := os.ReadFile(filepath.Join(deep, "a/b.txt")); err != nil || string(content) != "one\n2\nthree\n" {
		t.Errorf("%q, %v", content, err)
	}
	if diff := cmp.Diff([]string{"2\n", "Error: old_text occurs 3 times in sub/a/b.txt; it must occur once", "a/"}, got[2:5]); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(got[0], "14 bytes") || !strings.HasPrefix(got[5], "Error: ") {
		t.Errorf("%q, want %q", got, want)
	}
	_ = d
}

// Nothing outside of the workspace is read or written, however it is named, and nothing
// in it holds the agent up.
func TestFilesStayInside(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, d := results(t, func(d *desk) {
		w := d.input.Workspace
		err := errors.Join(os.Symlink(secret, filepath.Join(w, "link")), os.Symlink(outside, filepath.Join(w, "dir")),
			syscall.Mkfifo(filepath.Join(w, "pipe"), 0o600), os.WriteFile(filepath.Join(w, "binary"), []byte{0xff, 0}, 0o600),
			os.WriteFile(filepath.Join(w, "here"), []byte("inside"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	},
		use{"", "read_file", `{"path":"link"}`}, use{"", "read_file", `{"path":"dir/secret"}`},
		use{"", "read_file", fmt.Sprintf(`{"path":%q}`, secret)}, use{"", "list_files", `{"path":"dir"}`},
		use{"", "list_files", `{"path":".."}`}, use{"", "write_file", `{"path":"link","file_text":"changed"}`},
		use{"", "write_file", `{"path":"dir/new","file_text":"x"}`}, use{"", "write_file", `{"path":"../new","file_text":"x"}`},
		use{"", "edit_file", `{"path":"link","old_text":"canary","new_text":"x"}`}, use{"", "read_file", `{"path":"pipe"}`},
		use{"", "write_file", `{"path":"pipe","file_text":"x"}`}, use{"", "list_files", `{"path":"pipe"}`},
		use{"", "read_file", `{"path":"binary"}`}, use{"", "read_file", `{"path":"."}`},
	)
	for i, text := range got {
		if !strings.HasPrefix(text, "Error: ") || strings.Contains(text, "canary") {
			t.Errorf("use %d: %q", i, text)
		}
	}
	if content, err := os.ReadFile(secret); err != nil || string(content) != "canary" {
		t.Errorf("the secret is %q, %v", content, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside there is %v, %v", entries, err)
	}
	absolute, _ := results(t, func(o *desk) { o.input.Workspace = d.input.Workspace },
		use{"", "read_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(d.input.Workspace, "here"))})
	if absolute[0] != "inside" {
		t.Errorf("by its absolute path a file is %q", absolute[0])
	}
}

func TestCommands(t *testing.T) {
	got, d := results(t, func(*desk) {},
		use{"", "run_command", `{"command":"pwd; echo bad >&2; exit 3"}`},
		use{"", "run_command", `{"command":"head -c 200000 /dev/zero | tr '\\0' x"}`},
		use{"", "run_command", `{"command":"echo begun; exec sleep 600","timeout_seconds":1}`},
		use{"", "run_command", `{"command":"printf '\\377'"}`},
	)
	if want := fmt.Sprintf("Error: %s\n[stderr]\nbad\n[exit code 3]", d.input.Workspace); got[0] != want {
		t.Errorf("got %q, want %q", got[0], want)
	}
	if len(got[1]) > 70<<10 || !strings.Contains(got[1], "[134464 more bytes are left out]") {
		t.Errorf("%d bytes: …%q", len(got[1]), got[1][max(0, len(got[1])-100):])
	}
	if got[2] != "Error: begun\nthe command was killed after 1s" {
		t.Errorf("got %q", got[2])
	}
	if got[3] != "\uFFFD\n[exit code 0]" {
		t.Errorf("got %q", got[3])
	}
}

// A command's own children are gone when it was killed.
func TestKilledCommandLeavesNothing(t *testing.T) {
	got, d := results(t, func(*desk) {}, use{"", "run_command", `{"command":"sh -c 'echo $$ > child; sleep 600' & wait","timeout_seconds":1}`})
	if !strings.Contains(got[0], "was killed") {
		t.Fatal(got)
	}
	content, err := os.ReadFile(filepath.Join(d.input.Workspace, "child"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(content), &pid); err != nil {
		t.Fatal(err)
	}
	dockertest.Await(t, 30*time.Second, "the child's end", func() bool { return syscall.Kill(pid, 0) != nil })
}

// Without a shell there is no tool for it; who asks for one is told.
func TestNoShell(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	model := newModel(t, says("done"))
	d := newDesk(t, model)
	d.mustRun(t)
	if _, _, ok := model.last().tool("run_command"); ok {
		t.Error("run_command is offered")
	}
	d.input.Tools = []string{"shell"}
	if o := d.run(t); o.err == nil || o.err.Error() != "config.llm.tools has shell, and the agent's image has no sh" {
		t.Error(o.err)
	}
}
