package main

import (
	"context"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// TestWritesThroughNoLink has commands write in a stranger's directory whose entries are links. Each
// writes where a directory, or nothing, is in place of the link: outside nothing changes.
func TestWritesThroughNoLink(t *testing.T) {
	t.Parallel()
	server := mcpserver.NewMCPServer("till", "1", mcpserver.WithToolCapabilities(false))
	server.AddTool(mcp.NewTool("list_prices"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("none"), nil
	})
	till := httptest.NewServer(mcpserver.NewStreamableHTTPServer(server))
	t.Cleanup(till.Close)
	const project = `-- evals/shop/eval.yaml --
name: shop
skill: shop
config:
  trials_per_task: 1
  executor: mock
tasks: [tasks/*.yaml]
-- evals/shop/tasks/buy.yaml --
id: buy
inputs: {prompt: buy}
-- outside/file --
kept
`
	for _, test := range []struct {
		args, link string
		isFile     bool
	}{
		{args: "init --no-run URL", link: "tasks"},
		{args: "init --no-run URL", link: ".github"},
		{args: "init --no-run URL", link: ".github/workflows"},
		{args: "init --no-run URL", link: ".github/workflows/waza.yml", isFile: true},
		{args: "init --no-run URL", link: ".waza"},
		{args: "init --no-run --force URL", link: "eval.yaml", isFile: true},
		{args: "init --no-run --dir sub URL", link: "sub/tasks"},
		{args: "new task --eval evals/shop sell", link: "evals/shop/tasks"},
		{args: "new grader --eval evals/shop good", link: "evals/shop/graders"},
		{args: "new server --eval evals/shop till URL", link: "evals/shop/eval.yaml", isFile: true},
		{args: "run --no-isolate evals/shop/eval.yaml", link: ".waza"},
		{args: "run --no-isolate evals/shop/eval.yaml", link: ".waza/runs"},
		{args: "run --no-isolate --run-dir .waza/mine evals/shop/eval.yaml", link: ".waza"},
		{args: "run --no-isolate --output out.json evals/shop/eval.yaml", link: "out.json", isFile: true},
		{args: "run --no-isolate --output-dir out evals/shop/eval.yaml", link: "out/shop"},
		{args: "run --no-isolate --reporter junit:x.xml evals/shop/eval.yaml", link: "x.xml", isFile: true},
		{args: "inspect URL", link: ".waza"},
		{args: "inspect URL", link: ".waza/inspections"},
	} {
		t.Run(test.args+" "+test.link, func(t *testing.T) {
			t.Parallel()
			line := strings.Fields(strings.Replace(test.args, "URL", till.URL+"/mcp", 1))
			for _, isLink := range []bool{false, true} {
				p := unpackProject(t, project)
				at, outside := p.path(test.link), p.path("outside")
				err := os.MkdirAll(filepath.Dir(at), 0o755)
				if target := outside; isLink {
					if test.isFile {
						target = filepath.Join(outside, "dangling")
					}
					if _, there := os.Stat(at); there == nil { // it goes outside, and stays readable
						err = errors.Join(err, os.Rename(at, filepath.Join(outside, "moved")))
						target = filepath.Join(outside, "moved")
					}
					err = errors.Join(err, os.Symlink(target, at))
				}
				before := contents(t, outside)
				if err != nil {
					t.Fatal(err)
				}
				c := p.start(line...)
				if c.waitEnd(runLimit); isLink == (c.code == exitOK) || isLink && c.code != exitUsage && line[0] != "run" {
					t.Errorf("with a link: %t: exit code %d\n%s", isLink, c.code, c.stderr.String())
				}
				if after := contents(t, outside); after != before {
					t.Errorf("with a link: %t: outside was\n%s\nand is\n%s", isLink, before, after)
				}
				if said := c.stderr.String(); strings.Contains(said, "is a link, through which waza does not write") != isLink {
					t.Errorf("with a link: %t: it says %s", isLink, said)
				}
				if _, err := os.Lstat(at); err != nil {
					t.Errorf("with a link: %t: nothing is there: %v", isLink, err)
				}
			}
		})
	}
}

// contents returns the names and the contents of all that is in dir.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		all.WriteString(path + "\n")
		if err == nil && entry.Type().IsRegular() {
			content, errRead := os.ReadFile(path)
			all.Write(content)
			err = errRead
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
