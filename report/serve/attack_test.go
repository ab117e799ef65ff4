package serve

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhoIsLetIn asks as others would: under another name, from another site, without the
// token.
func TestWhoIsLetIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	makeRun(t, dir, "a")
	s := open(t, dir)
	port := s.base[strings.LastIndex(s.base, ":")+1:]
	cookie := s.cookie().Name
	header := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	withCookie := func(name, value string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del("Cookie")
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
	}
	from := func(site, mode, dest string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", site)
			r.Header.Set("Sec-Fetch-Mode", mode)
			r.Header.Set("Sec-Fetch-Dest", dest)
		}
	}
	for name, test := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"the token":           {nil, 200},
		"localhost":           {host("localhost:" + port), 200},
		"LOCALHOST":           {host("LOCALHOST:" + port), 200},
		"IPv6":                {host("[::1]:" + port), 200},
		"own origin":          {header("Origin", s.base), 200},
		"typed address":       {from("none", "navigate", "document"), 200},
		"a followed link":     {from("cross-site", "navigate", "document"), 200},
		"own script":          {from("same-origin", "cors", "empty"), 200},
		"a foreign name":      {host("attacker.example:" + port), 421},
		"a rebound name":      {host("localhost.attacker.example:" + port), 421},
		"no name":             {host(" "), 421},
		"another address":     {host("192.0.2.1:" + port), 421},
		"a foreign origin":    {header("Origin", "http://attacker.example"), 403},
		"no origin":           {header("Origin", "null"), 403},
		"another port":        {header("Origin", "http://127.0.0.1:1"), 403},
		"https":               {header("Origin", "https://127.0.0.1:"+port), 403},
		"two origins":         {header("Origin", s.base, "http://attacker.example"), 403},
		"a foreign script":    {from("cross-site", "no-cors", "script"), 403},
		"a neighbour's image": {from("same-site", "no-cors", "image"), 403},
		"a frame":             {from("cross-site", "navigate", "iframe"), 403},
		"no token":            {func(r *http.Request) { r.Header.Del("Cookie") }, 401},
		"an empty token":      {withCookie(cookie, ""), 401},
		"a wrong token":       {withCookie(cookie, strings.Repeat("A", len(s.token))), 401},
		"half of the token":   {withCookie(cookie, s.token[:10]), 401},
		"more than the token": {withCookie(cookie, s.token+"A"), 401},
		"as a password":       {func(r *http.Request) { r.Header = http.Header{"Authorization": {"Bearer " + s.token}} }, 401},
		"a neighbour's":       {withCookie("waza-serve-1", s.token), 401},
	} {
		for _, path := range []string{"/", "/runs/a/files/run.json", "/runs/a/overview"} {
			got := s.ask(path, test.change)
			if got.StatusCode != test.status {
				t.Errorf("%s, %s: %s, want %d", name, path, got.Status, test.status)
			}
			if test.status != 200 && strings.Contains(got.body, "shop") {
				t.Errorf("%s, %s is told of the run", name, path)
			}
			checkHeaders(t, name+path, got.Header)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} {
		got := s.ask("/", func(r *http.Request) { r.Method = method })
		if got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %s\n%s", method, got.Status, got.body)
		}
	}
	if got := s.ask("/runs/a/overview", func(r *http.Request) { r.Method = "HEAD" }); got.StatusCode != 200 || got.body != "" {
		t.Errorf("HEAD: %s, %d bytes", got.Status, len(got.body))
	}
	if got := s.ask("/healthz", func(r *http.Request) { r.Header.Del("Cookie") }); got.body != "ok\n" {
		t.Errorf("healthz: %s, %q", got.Status, got.body)
	}
	if got := s.ask("/healthz", host("attacker.example")); got.StatusCode != 421 {
		t.Errorf("healthz under another name: %s", got.Status)
	}
}

func checkHeaders(t *testing.T, what string, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %s is %q, want %q", what, name, got, want)
		}
	}
	policy := h.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("%s: the policy is %s", what, policy)
	}
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s: %s", what, name)
		}
	}
}

// The printed URL makes the browser store the token where no page can read it, and does not
// appear in the history.
func TestEntering(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	without := func(r *http.Request) { r.Header.Del("Cookie") }
	for path, to := range map[string]string{"/?token=TOKEN": "/", "/compare?token=TOKEN&run=a": "/compare?run=a", "//attacker.example/?token=TOKEN": "/attacker.example/"} {
		got := s.ask(strings.ReplaceAll(path, "TOKEN", s.token), without)
		kept := got.Header.Get("Set-Cookie")
		if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != to {
			t.Errorf("%s: %s to %q, want %q", path, got.Status, got.Header.Get("Location"), to)
		}
		for _, want := range []string{s.token, "HttpOnly", "SameSite=Strict", "Path=/"} {
			if !strings.Contains(kept, want) {
				t.Errorf("%s: the cookie %q lacks %q", path, kept, want)
			}
		}
		if strings.Contains(got.Header.Get("Location"), s.token) || strings.Contains(strings.ToLower(kept), "domain") {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
	if got := s.ask("/?token=wrong", without); got.StatusCode != 401 || got.Header.Get("Set-Cookie") != "" {
		t.Errorf("a wrong token: %s, %v", got.Status, got.Header)
	}
}

// TestNothingOutside asks for files that are not of the run that is named.
func TestNothingOutside(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir := filepath.Join(above, "runs")
	at := makeRun(t, dir, "a")
	makeRun(t, dir, "other")
	const secret = "S3CRET"
	for _, path := range []string{filepath.Join(above, "secret"), filepath.Join(dir, "secret"), filepath.Join(dir, "other", "secret"), filepath.Join(dir, ".hidden", "secret")} {
		lay(t, path, secret)
	}
	for name, to := range map[string]string{
		"absolute": filepath.Join(above, "secret"), "up": "../../secret", "sibling": "../other/secret", "passwd": "/etc/passwd",
		"dir": "../other", "inside": "run.json", "within": "buy",
	} {
		if err := os.Symlink(to, filepath.Join(at, "trials", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("other", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	for _, path := range []string{
		"/runs/a/files/../secret", "/runs/a/files/../../secret", "/runs/a/files/..%2fsecret", "/runs/a/files/%2e%2e/%2e%2e/secret",
		"/runs/a/files/%2e%2e%2f%2e%2e%2fsecret", "/runs/a/files//etc/passwd", "/runs/a/files/%2fetc%2fpasswd", "/runs/a/files/trials/../../secret",
		"/runs/../runs/../secret", "/runs/..%2f..%2fsecret/files/secret", "/runs/%2e%2e/files/secret", "/runs/a%2f..%2fother/files/secret", "/runs/./files/secret", "/runs/.hidden/files/secret",
		"/runs/a/files/..%5csecret", "/runs/a%00/files/run.json", "/runs/a/files/run.json%00", "/runs/a/files/run.json/", "/runs/a/files/", "/runs/a/files/trials",
		"/runs/a/files/trials/absolute", "/runs/a/files/trials/up", "/runs/a/files/trials/sibling", "/runs/a/files/trials/passwd",
		"/runs/a/files/trials/dir/secret", "/runs/a/files/trials/inside", "/runs/a/files/trials/within/1/agent.stdout", "/runs/link/files/secret", "/runs/link/overview",
		"/runs/a/trial/..%2f..%2f..%2fother%2ftrials%2fbuy/1", "/runs/a/trial/buy/..%2f1", "/runs/a/trial/buy/01", "/runs/a/trial/buy/-1", "/runs/a/trial/dir/1",
	} {
		for hops, to := 0, path; to != ""; hops++ {
			got := s.ask(to, nil)
			if strings.Contains(got.body, secret) || strings.Contains(got.body, "root:") {
				t.Errorf("%s is told: %s", path, got.body)
			}
			if got.StatusCode == 200 || got.StatusCode == 500 || hops == 4 {
				t.Errorf("%s: %s", to, got.Status)
			}
			to = got.Header.Get("Location")
		}
	}
	// What would lead a reader of the run away keeps it from being read.
	if got := s.ask("/runs/a/overview", nil); got.StatusCode != 500 || !strings.Contains(got.body, "a run directory holds regular files only") {
		t.Errorf("a run with links in it: %s\n%s", got.Status, got.body)
	}
	if list := s.list(); len(list) != 2 {
		t.Errorf("listed: %+v", list)
	}
}

// A link in a trial, in the place of what its page reads, is not read.
func TestTrialOfLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := makeRun(t, dir, "a")
	lay(t, filepath.Join(dir, "secret"), "S3CRET")
	name := filepath.Join(at, "trials", "buy", "1", "agent.stdout")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "secret"), name); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if got := s.ask("/runs/a/trial/buy/1", nil); got.StatusCode != 500 || strings.Contains(got.body, "S3CRET") {
		t.Errorf("%s\n%s", got.Status, got.body)
	}
	if got := s.ask("/runs/a/trial/sell/1", nil); got.StatusCode != 200 {
		t.Errorf("another trial: %s", got.Status)
	}
}

// A page that an agent left is not a page here.
func TestCapturedPagesAreText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := makeRun(t, dir, "a")
	for _, name := range []string{"evil.html", "evil.svg", "evil.js", "evil.xhtml", "evil.pdf", "evil"} {
		lay(t, filepath.Join(at, name), "<!doctype html><script>alert(1)</script>")
	}
	lay(t, filepath.Join(at, "trials/buy/1/<b>#?.html"), "")
	s := open(t, dir)
	if page := s.page("/runs/a/trial/buy/1"); !strings.Contains(page, `href="/runs/a/files/trials/buy/1/%3Cb%3E%23%3F.html"`) || !strings.Contains(page, `href="/runs/a/files/trials/buy/1/frames/`) {
		t.Error("the page does not lead to the trial's files")
	}
	for _, name := range []string{"evil.html", "evil.svg", "evil.js", "evil.xhtml", "evil.pdf", "evil", "trials/buy/1/%3Cb%3E%23%3F.html", "trials/buy/1/agent.stdout", "report.html"} {
		got := s.ask("/runs/a/files/"+name, nil)
		if name == "report.html" && got.StatusCode == 404 {
			continue
		}
		if got.StatusCode != 200 || got.Header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.HasPrefix(got.Header.Get("Content-Security-Policy"), "sandbox; default-src 'none'") {
			t.Errorf("%s: %s, %v", name, got.Status, got.Header)
		}
		checkHeaders(t, name, got.Header)
	}
}

// Names are anybody's, too.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := []string{`<img src=x onerror=alert(1)>`, `"><script>alert(1)<`, "a\nb\u202eevil", `%2e%2e`, `a?b#c`, `a..`, "\x1b[31m", "a\xffb", "run=x&token=y"}
	for _, name := range names {
		makeRun(t, dir, name)
	}
	s := open(t, dir)
	page := s.page("/")
	if strings.Count(page, "<script") != 2 || strings.Contains(page, "<img") || strings.Contains(page, "\u202e") || strings.Contains(page, "\x1b") {
		t.Errorf("a name is more than text:\n%s", page[strings.Index(page, "<main"):])
	}
	links := 0
	for _, part := range strings.Split(page, `href="`)[1:] {
		if link, _, _ := strings.Cut(part, `"`); strings.HasPrefix(link, "/runs/") {
			links++
			s.page(strings.ReplaceAll(link, "&amp;", "&"))
		}
	}
	if links != len(names) {
		t.Errorf("%d links to %d runs", links, len(names))
	}
}

func lay(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
