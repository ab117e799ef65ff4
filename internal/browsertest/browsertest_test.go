package browsertest_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/internal/browsertest"
	"github.com/waza-isolate/waza/internal/dockertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const honest = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title></head>
<body><main><h1>A page</h1><p id="p">words</p><button id="b">press</button></main>`

// write makes a page that ends with tail, and returns its address.
func write(t *testing.T, tail string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte(honest+tail), 0o644); err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// What a page must not do is noted, or tests of pages would pass empty.
func TestNoted(t *testing.T) {
	b := browsertest.Start(t)
	const policy = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'">`
	for name, c := range map[string]struct{ tail, want string }{
		"console":    {`<script>console.log("told")</script>`, `console.log: "told"`},
		"exception":  {`<script>throw new Error("thrown")</script>`, "exception: Error: thrown"},
		"rejection":  {`<script>Promise.reject(new Error("broken"))</script>`, "exception: Error: broken"},
		"policy":     {policy + `<script>document.title = "ran"</script>`, "Content Security Policy"},
		"handler":    {policy + `<img src="data:," onerror="alert(1)">`, "Content Security Policy"},
		"request":    {`<img src="http://192.0.2.1/x.png">`, "request: http://192.0.2.1/x.png"},
		"by name":    {`<script>fetch("http://somewhere.example/y").catch(() => {})</script>`, "request: http://somewhere.example/y"},
		"other file": {`<img src="/etc/hostname">`, "request: file:///etc/hostname"},
		"frame":      {`<iframe src="http://192.0.2.1/frame"></iframe>`, "request: http://192.0.2.1/frame"},
		"web socket": {`<script>new WebSocket("ws://192.0.2.1/s").onerror = () => {}</script>`, "web socket: ws://192.0.2.1/s"},
		"dialog":     {`<script>alert("look")</script>`, "dialog: alert: look"},
		"leaving":    {`<script>setTimeout(() => { location = "http://192.0.2.1/gone" })</script>`, "request: http://192.0.2.1/gone"},
	} {
		t.Run(name, func(t *testing.T) {
			p := b.Open(t, write(t, c.tail), browsertest.View{})
			dockertest.Await(t, 3*time.Minute, "a note of "+c.want, func() bool { return strings.Contains(strings.Join(p.Notes(), "\n"), c.want) })
		})
	}
}

func TestQuietPage(t *testing.T) {
	p := browsertest.Start(t).Open(t, write(t, `<script>
		document.getElementById("b").onclick = () => { document.getElementById("p").textContent = "pressed" };
		document.onkeydown = e => { document.title += e.key };
	</script>`), browsertest.View{})
	p.Click("#b")
	p.Await(`document.getElementById("p").textContent === "pressed"`)
	p.Press("/", kb.Tab)
	if got, want := browsertest.Eval[string](p, "document.title"), "A page/Tab"; got != want {
		t.Errorf("keys came as %q, want %q", got, want)
	}
	if p.FirstPaint() <= 0 {
		t.Error("was never painted")
	}
	p.Fits()
	p.Accessible()
	p.Quiet()
}

func TestViews(t *testing.T) {
	p := browsertest.Start(t).Open(t, write(t, ""), browsertest.View{Width: 360, Height: 640, Dark: true, Still: true})
	all := `[innerWidth, innerHeight, ...["(prefers-color-scheme: dark)", "(prefers-reduced-motion)", "print"].map(q => matchMedia(q).matches)].join()`
	if got, want := browsertest.Eval[string](p, all), "360,640,true,true,false"; got != want {
		t.Errorf("seen as %s, want %s", got, want)
	}
	p.See(browsertest.View{Paper: true})
	if got, want := browsertest.Eval[string](p, all), "1280,800,false,false,true"; got != want {
		t.Errorf("seen as %s, want %s", got, want)
	}
	if pdf := p.PDF(); !strings.HasPrefix(string(pdf), "%PDF-") {
		t.Errorf("printed as %.20q", pdf)
	}
}

func TestWithoutScript(t *testing.T) {
	p := browsertest.Start(t).Open(t, write(t, `<script>document.title = "ran"</script>`), browsertest.View{NoScript: true})
	if got := browsertest.Eval[string](p, "document.title"); got != "A page" {
		t.Errorf("the script ran: %q", got)
	}
}

// recorder takes what a page's checks complain of.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Error(args ...any) { r.errors = append(r.errors, args[0].(string)) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, format)
}

func TestChecksFail(t *testing.T) {
	r := &recorder{TB: t}
	p := browsertest.Start(t).Open(r, write(t, `<input><div style="width: 2000px">wide</div><script>console.error("x")</script>`), browsertest.View{})
	for name, check := range map[string]func(){"accessible": p.Accessible, "fits": p.Fits, "quiet": p.Quiet} {
		r.errors = nil
		if check(); len(r.errors) == 0 {
			t.Errorf("%s: nothing was found", name)
		}
	}
}

// Nothing of a browser is there after its test: no process, no file.
func TestNothingIsLeft(t *testing.T) {
	var home, profile string
	t.Run("browser", func(t *testing.T) {
		b := browsertest.Start(t)
		b.Open(t, write(t, ""), browsertest.View{})
		home = browsertest.Home(b)
		for _, args := range processes(t, home) {
			if _, after, ok := strings.Cut(args, "--user-data-dir="); ok {
				profile, _, _ = strings.Cut(after, "\x00")
			}
		}
		if _, err := os.Stat(profile); err != nil {
			t.Fatalf("where is the browser? %v", err)
		}
	})
	if left := processes(t, home); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	for _, dir := range []string{home, profile} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

// processes lists the arguments of the processes that have a directory as their home.
func processes(t *testing.T, home string) (found []string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !strings.Contains(string(environ), "HOME="+home) {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		found = append(found, string(args))
	}
	return found
}
