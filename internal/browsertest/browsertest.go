// Package browsertest opens pages in headless Chromium for tests. A test sets how a page is
// viewed, interacts with it like a user, and checks what the browser recorded.
//
// The browser resolves no names and can connect only to the loopback interface. Every
// operation has a deadline that allows for busy machines. Nothing is left after the test.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/waza-isolate/waza/internal/dockertest"
)

// patience limits the start of the browser and each operation on a page.
const patience = 2 * time.Minute

// names are the names of the browser's executable in distributions.
var names = [...]string{"chromium", "chromium-browser", "google-chrome"}

// Browser is a Chromium process that ends with the test that started it.
type Browser struct {
	ctx  context.Context
	home string // of the process
}

// Start starts a browser. Without one it skips or fails the test like [dockertest.Miss].
func Start(t testing.TB) *Browser {
	t.Helper()
	home := t.TempDir()
	all, end := chromedp.NewExecAllocator(context.Background(), append(options(), chromedp.ExecPath(find(t)),
		chromedp.NoInheritEnv, chromedp.Env("PATH="+os.Getenv("PATH"), "HOME="+home, "TMPDIR="+home, "LANG=C.UTF-8"),
	)...)
	t.Cleanup(end)
	ctx, _ := chromedp.NewContext(all)
	t.Cleanup(func() { stop(t, ctx) })
	started := time.AfterFunc(patience, end)
	defer started.Stop()
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	return &Browser{ctx, home}
}

// stop closes the browser or page of ctx and waits for that.
func stop(t testing.TB, ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := chromedp.Cancel(ctx); err != nil {
		t.Errorf("the browser does not close: %v", err)
	}
}

func find(t testing.TB) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	dockertest.Miss(t, "there is no Chromium; run scripts/setup browser")
	return ""
}

// options returns the library's default options, and options that keep the browser on this
// machine.
func options() []chromedp.ExecAllocatorOption {
	own := map[string]any{
		"host-resolver-rules":        "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"disable-component-update":   true,
		"disable-domain-reliability": true,
		"disable-gpu":                true,
		"no-proxy-server":            true,
		"no-pings":                   true,
		"hide-scrollbars":            true,
		"disable-features":           "Translate,OptimizationHints,MediaRouter,AutofillServerCommunication",
		"font-render-hinting":        "none",
	}
	all := chromedp.DefaultExecAllocatorOptions[:]
	all = all[:len(all):len(all)]
	for name, value := range own {
		all = append(all, chromedp.Flag(name, value))
	}
	return all
}

// root returns the root directory of the module.
func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", os.ErrNotExist
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}
