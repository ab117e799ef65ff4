package pagetest

import (
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/browsertest"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/runner"
)

// runLimit bounds a run of an example.
const runLimit = 10 * time.Minute

// ran runs an example in isolation, and returns its run directory.
func ran(t *testing.T, example string, args ...string) string {
	t.Helper()
	engine := dockertest.Engine(t)
	dir := filepath.Join(t.TempDir(), path.Base(example))
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	args = append([]string{"run", "--isolate", "--run-dir", dir}, args...)
	waza := exec.CommandContext(ctx, dockertest.Waza(t), append(args, filepath.Join("..", "examples", example, "eval.yaml"))...)
	waza.Cancel = func() error { return waza.Process.Signal(os.Interrupt) }
	waza.WaitDelay = time.Minute
	if out, err := waza.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	record, err := runner.ReadRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	dockertest.NoObjects(t, engine, record.ID)
	return dir
}

// views are how each page is looked at: wide and narrow, light and dark.
var views = map[string]browsertest.View{
	"wide":        {Width: 1600, Height: 1000},
	"wide-dark":   {Width: 1600, Height: 1000, Dark: true},
	"middle":      {Width: 800, Height: 1000, Still: true},
	"narrow":      {Width: 360, Height: 740},
	"narrow-dark": {Width: 360, Height: 740, Dark: true},
}

// look looks at a page in every way, and holds that it fits, has no barriers, and stays
// quiet. Pictures of it are called name.
func look(t *testing.T, b *browsertest.Browser, address, name string) {
	t.Helper()
	p := b.Open(t, address, browsertest.View{})
	for view, v := range views {
		t.Run(view, func(t *testing.T) {
			p := p.For(t)
			p.See(v)
			p.Fits()
			p.Accessible()
			p.Picture(name + "-" + view)
		})
	}
	p.Quiet()
}

func TestRealReports(t *testing.T) {
	b := browsertest.Start(t)
	for _, c := range []struct {
		example string
		pages   map[string]string
	}{
		{"mcp-eval", map[string]string{"overview": "", "servers": "#servers", "trial": "#trial/report/1"}},
		{"real-servers", map[string]string{"overview": "", "servers": "#servers", "trial": "#trial/error/1"}},
	} {
		t.Run(c.example, func(t *testing.T) {
			report, _ := written(t, ran(t, c.example))
			for name, at := range c.pages {
				t.Run(name, func(t *testing.T) { look(t, b, file(report)+at, c.example+"-"+name) })
			}
		})
	}
}
