package trial

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/tree/treetest"
)

// Expressions find the arguments that waza knows by name, whatever the agent gave, and all
// others as they were.
func TestAssertionArguments(t *testing.T) {
	for given, want := range map[string]string{
		"":     `{"command":"","description":"","file_text":"","path":"","skill":""}`,
		"null": `{"command":"","description":"","file_text":"","path":"","skill":""}`,
		`{"command":"ls","id":12345678901234567890}`: `{"command":"ls","description":"","file_text":"","id":12345678901234567890,"path":"","skill":""}`,
		`{"path":["a"]}`: `{"command":"","description":"","file_text":"","path":["a"],"skill":""}`,
		`[1]`:            `[1]`,
	} {
		call, err := assertionCallOf(capture.Use{Tool: "bash", Arguments: json.RawMessage(given)})
		if err != nil || string(call.Arguments) != want {
			t.Errorf("%s: %s, %v, want %s", given, call.Arguments, err, want)
		}
	}
}

// Expressions name tools as upstream waza does.
func TestAssertionName(t *testing.T) {
	for _, test := range []struct {
		use  capture.Use
		want string
	}{
		{capture.Use{Tool: "find_item", Call: &evidence.Call{Server: "inventory"}}, "inventory-find_item"},
		{capture.Use{Tool: "bash"}, "bash"},
	} {
		if got, err := assertionCallOf(test.use); err != nil || got.Name != test.want {
			t.Errorf("name %q, %v, want %q", got.Name, err, test.want)
		}
	}
}

// What no container takes of a hostile tree is left out, so that nobody escapes a grader by
// leaving it.
func TestCopyPlain(t *testing.T) {
	hostile := treetest.Tar(t, 0o644,
		treetest.Entry{Name: "a", Content: "x"},
		treetest.Entry{Name: "pipe", Kind: tar.TypeFifo},
		treetest.Entry{Name: "hard", Kind: tar.TypeLink, Link: "a"},
		treetest.Entry{Name: "../out", Content: "x"},
		treetest.Entry{Name: "/etc/passwd", Content: "x"},
		treetest.Entry{Name: "link", Kind: tar.TypeSymlink, Link: "/etc/passwd"},
		treetest.Entry{Name: "d/in", Kind: tar.TypeSymlink, Link: "../a"},
	)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := errors.Join(copyPlain(w, bytes.NewReader(hostile), true), w.Close()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for in := tar.NewReader(&out); ; {
		header, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
	if got := strings.Join(names, " "); got != "a d/in" {
		t.Errorf("copied %q", got)
	}
}

// No link, and no chain of links, leads a program to its own files.
func TestIsConfined(t *testing.T) {
	for link, want := range map[[2]string]bool{
		{"x", "a"}: true, {"d/x", "../a"}: true, {"x", "."}: true, {"x", "./../workspace/a"}: true, {"x", "/workspace/a"}: true,
		{"venv/bin/python", "/usr/bin/python3"}: true, {"x", "../usr/local/bin/node"}: true,
		{"x", "/opt/conda/bin/python"}: true, {"x", "/usr"}: true, {"x", ""}: true,
		{"x", "/"}: false, {"x", ".."}: false, {"x", "/etc/passwd"}: false,
		{"x", "/home/agent/grader/expected"}: false, {"d/x", "../../home/agent/grader/expected"}: false,
		{"x", "/proc/self/cwd/expected"}: false, {"x", "/dev/fd/3"}: false, {"x", "/workspaces/a"}: false,
		{"a/b/x", "up/../../home/agent/grader/expected"}: false, {"x", "/usr/bin/../../home/agent/grader/expected"}: false,
		{"x", "/../home/agent/grader/expected"}: false, {"x", "/workspace/../proc/self/cwd/expected"}: false,
	} {
		if got := isConfined(link[0], link[1]); got != want {
			t.Errorf("%q: %t", link, got)
		}
	}
}

// FuzzCopyPlain copies any bytes: what comes of it can be put.
func FuzzCopyPlain(f *testing.F) {
	f.Add(treetest.Tar(f, 0o644, treetest.Entry{Name: "a", Content: "x"}))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, hostile []byte) {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		if errors.Join(copyPlain(w, bytes.NewReader(hostile), true), w.Close()) != nil {
			return
		}
		for in := tar.NewReader(&out); ; {
			header, err := in.Next()
			if err == io.EOF {
				return
			}
			if err != nil || !filepath.IsLocal(header.Name) || !strings.Contains("0 2 5 \x00", string(header.Typeflag)) {
				t.Fatalf("%+v, %v", header, err)
			}
		}
	})
}
