package main

import (
	"os"
	"testing"

	"github.com/waza-isolate/waza/internal/dockertest"
)

// The MCP server of waza serve passes an eval of our own, which asks it about two runs. The
// example takes waza from the image that make image makes; here it is the one that is tested.
func TestExampleAskRuns(t *testing.T) {
	t.Parallel()
	p := newProject(t, "")
	if err := os.CopyFS(p.dir, os.DirFS("../../examples/ask-runs")); err != nil {
		t.Fatal(err)
	}
	copyFile(t, dockertest.Waza(t), p.path("server/waza"), 0o755)
	p.write("server/Dockerfile", "FROM "+debian+"\nCOPY waza /usr/local/bin/waza\nCOPY runs /runs\n"+
		`ENTRYPOINT ["/usr/local/bin/waza", "serve", "--mcp", "/runs"]`+"\n")
	for _, executor := range []string{"script", "llm"} {
		p.start("run", "--isolate", "eval.yaml", "--executor", executor, "--run-dir", executor).wait(exitOK)
		if s := p.resultsIn(executor).Summary; s.Succeeded != 2 || s.TotalTests != 2 {
			t.Errorf("%s: summary %+v", executor, s)
		}
	}
}
