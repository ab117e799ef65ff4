package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/runner"
)

// The example runs with its server out of VS Code's file: one takes the place of
// the eval's, whose image there is not, and another is new.
func TestOverlaidServers(t *testing.T) {
	t.Parallel()
	p := newProject(t, "", inventory)
	if err := os.CopyFS(p.dir, os.DirFS("../../examples/mcp-eval")); err != nil {
		t.Fatal(err)
	}
	eval := strings.Replace(p.read("eval.yaml"), "image: waza-examples/inventory", "image: waza-examples/there-is-none", 1)
	p.write("eval.yaml", strings.Replace(eval, "name: ", "name: "+p.name+"-", 1))
	const file = `{
	"servers": {
		// the one that the tasks are about
		"inventory": {"type": "stdio", "image": "waza-examples/inventory", "gallery": true},
		"Spare_Stock": {"image": "waza-examples/inventory", "env": {"STOCK": "spare"}},
	},
}`
	p.write("mcp.json", file)

	c := p.run(exitOK, "--mcp", "mcp.json", "--task", "price", "--trials", "2")
	if notes := strings.Count(c.stderr.String(), "note: "); notes != 1 {
		t.Errorf("%d notes, want 1: %s", notes, c.stderr.String())
	}
	sum := sha256.Sum256([]byte(file))
	want := &runner.MCPRecord{Path: "mcp.json", SHA256: hex.EncodeToString(sum[:]), Servers: []string{"Spare_Stock", "inventory"}}
	if diff := cmp.Diff(want, p.record().MCP); diff != "" {
		t.Errorf("run.json (-want +got):\n%s", diff)
	}
	if d := p.runOf("price").SessionDigest; d.MCPToolCalls != 1 || !slices.Equal(d.MCPServersUsed, []string{"inventory"}) {
		t.Errorf("session digest %+v", d)
	}
	if !p.exists("run", "trials", "price", "1", "servers", "Spare_Stock.stderr") {
		t.Error("the added server was not started")
	}
}
