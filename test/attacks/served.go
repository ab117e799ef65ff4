package attacks

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// site is the content of waza serve for a run.
type site struct {
	judged
	text string // text of all pages
}

// maxPages limits the number of pages visited per run.
const maxPages = 40

// served visits the run on waza serve: the pages of a task, linked pages, and its files.
func (r *Run) served(task string) site {
	if s, known := r.sites[task]; known {
		return s
	}
	s := site{}
	if err := s.visit(r.Waza, r.Dir, task); err != nil {
		s.stray("it cannot be looked at: %v", err)
	}
	if r.sites == nil {
		r.sites = map[string]site{}
	}
	r.sites[task] = s
	return s
}

// visit starts the server, visits the pages and stops it.
func (s *site) visit(waza, dir, task string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, waza, "serve", filepath.Dir(dir))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { cancel(); _ = cmd.Wait() }() // killed by cancel
	base, err := address(out)
	if err != nil {
		return err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	v := visit{site: s, base: base, client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{}, Jar: jar}}
	defer v.client.CloseIdleConnections()
	run := "/runs/" + filepath.Base(dir)
	trial := run + "/files/trials/" + task + "/1/"
	v.pages("/?"+base.RawQuery, run+"/overview", run+"/servers", run+"/trial/"+task+"/1")
	for _, file := range []string{"agent.stdout", "agent.stderr", "servers/evil.stderr", evidence.FramesOf("evil"), "workspace.tar"} {
		v.file(trial + file)
	}
	return v.err
}

// address returns the URL that the server prints.
func address(out io.Reader) (*url.URL, error) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); strings.HasPrefix(line, "http://") {
			return url.Parse(line)
		}
	}
	return nil, fmt.Errorf("waza serve says no address: %v", lines.Err())
}

// visit is an HTTP client that records violations of a site.
type visit struct {
	*site
	base   *url.URL
	client *http.Client
	err    error // first error
}

// get requests a path, and records missing headers that protect against content sniffing.
func (v *visit) get(path string) (http.Header, []byte) {
	answer, err := v.client.Get(v.base.Scheme + "://" + v.base.Host + path)
	if err != nil {
		v.fail(err)
		return nil, nil
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		v.fail(fmt.Errorf("%s: %s, %v", path, answer.Status, err))
	}
	policy := answer.Header.Get("Content-Security-Policy")
	if answer.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
		v.stray("%s is served without what it must have: %v", path, answer.Header)
	}
	return answer.Header, body
}

func (v *visit) fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

// pages visits pages, and those linked from them that are below the last one.
func (v *visit) pages(paths ...string) {
	below, seen := paths[len(paths)-1], map[string]bool{}
	for len(paths) > 0 && len(seen) < maxPages {
		path := paths[0]
		if paths = paths[1:]; seen[path] {
			continue
		}
		seen[path] = true
		header, body := v.get(path)
		p := readPage(body)
		if p.root == nil || header.Get("Content-Type") != "text/html; charset=utf-8" {
			v.fail(fmt.Errorf("%s is no page: %v", path, p.strays))
			return
		}
		v.judged, v.text = both(v.judged, p.judged), v.text+text(p.root)
		for n := range p.root.Descendants() {
			if href := value(n, "href"); strings.HasPrefix(href, below+"/") {
				paths = append(paths, href)
			}
		}
	}
}

// file records files that a browser would not treat as plain text.
func (v *visit) file(path string) {
	header, _ := v.get(path)
	kind, policy := header.Get("Content-Type"), header.Get("Content-Security-Policy")
	if kind != "text/plain; charset=utf-8" && kind != "application/octet-stream" || !strings.HasPrefix(policy, "sandbox;") {
		v.stray("the file %s is served as %q, under %q", path, kind, policy)
	}
}
