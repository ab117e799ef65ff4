package gitrepo

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/internal/offline"
	"github.com/waza-isolate/waza/internal/tree"
)

// repo is a repository of a test's.
type repo struct {
	t   *testing.T
	dir string
}

// newRepo makes a repository with two commits: the first has the tag v1, the second is on
// main.
func newRepo(t *testing.T) repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	r := repo{t, t.TempDir()}
	r.git("init", "--quiet", "--initial-branch=main", ".")
	r.commit("file", "first")
	r.git("tag", "v1")
	r.commit("file", "second")
	return r
}

func (r repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = r.dir
	cmd.Env = append(cmd.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r repo) write(name, content string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o755)); err != nil {
		r.t.Fatal(err)
	}
}

func (r repo) commit(name, content string) {
	r.t.Helper()
	r.write(name, content)
	r.git("add", "-A")
	r.git("commit", "--quiet", "-m", content)
}

// filesOf is what a tree holds outside of its .git, and the names that are there.
func filesOf(t *testing.T, from *Tree) (content map[string]string, names []string) {
	t.Helper()
	content = map[string]string{}
	for e, err := range tree.Entries(from.Open()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Name)
		if !strings.HasPrefix(e.Name, ".git/") {
			data, err := io.ReadAll(e.Content)
			if err != nil {
				t.Fatal(err)
			}
			content[e.Name] = string(data) + e.Linkname
		}
	}
	return content, names
}

func TestFetch(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first, second := r.git("rev-parse", "v1"), r.git("rev-parse", "main")
	bundle := filepath.Join(t.TempDir(), "r.bundle")
	r.git("bundle", "create", "--quiet", bundle, "main", "v1")
	r.git("checkout", "--quiet", "--detach", "v1")
	r.write("sub/untracked", "")
	r.git("update-ref", "refs/remotes/origin/topic/x", "v1")
	for _, test := range []struct {
		name   string
		source Source
		commit string
	}{
		{"HEAD", Source{Path: r.dir}, first},
		{"a branch", Source{Path: r.dir, Commit: "main"}, second},
		{"a tag", Source{Path: r.dir, Commit: "v1"}, first},
		{"a commit", Source{Path: r.dir, Commit: second}, second},
		{"a short commit", Source{Path: r.dir, Commit: second[:10]}, second},
		{"a branch of origin", Source{Path: r.dir, Commit: "topic/x"}, first},
		{"a branch of origin with a depth", Source{Path: r.dir, Commit: "topic/x", Depth: 1}, first},
		{"a branch of origin by its name", Source{Path: r.dir, Commit: "origin/topic/x"}, first},
		{"a depth", Source{Path: r.dir, Commit: "main", Depth: 1}, second},
		{"from a directory in it", Source{Path: filepath.Join(r.dir, "sub"), Commit: "main"}, second},
		{"a bundle", Source{Path: bundle, Commit: "main"}, second},
		{"a bundle's tag", Source{Path: bundle, Commit: "v1"}, first},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tree, err := Fetch(t.Context(), test.source)
			if err != nil {
				t.Fatal(err)
			}
			content, names := filesOf(t, tree)
			want := map[string]string{first: "first", second: "second"}[test.commit]
			if tree.Commit != test.commit || len(content) != 1 || content["file"] != want {
				t.Errorf("%s has %q, want %s", tree.Commit, content, test.commit)
			}
			if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, ".git/hooks/") || name == ".git/FETCH_HEAD" }) {
				t.Errorf("it has %q", names)
			}
		})
	}
}

// A workspace's repository is one that git works with, with all of its history.
func TestHistory(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	for depth, want := range map[int]string{0: "second\nfirst", 1: "second"} {
		fetched, err := Fetch(t.Context(), Source{Path: r.dir, Depth: depth})
		if err != nil {
			t.Fatal(err)
		}
		into := repo{t, t.TempDir()}
		for e, err := range tree.Entries(fetched.Open()) {
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(e.Content)
			if err != nil {
				t.Fatal(err)
			}
			if path := filepath.Join(into.dir, e.Name); strings.HasSuffix(e.Name, "/") {
				err = os.MkdirAll(path, 0o755)
			} else {
				err = os.WriteFile(path, data, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if log := into.git("log", "--format=%s"); log != want {
			t.Errorf("with depth %d its log is %q", depth, log)
		}
		if config := into.git("config", "--list", "--local"); strings.Contains(config, r.dir) {
			t.Errorf("its configuration tells where it is from: %s", config)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	outside := newRepo(t)
	outside.git("checkout", "--quiet", "-b", "out")
	link(t, filepath.Join(outside.dir, "here"), "file")
	link(t, filepath.Join(outside.dir, "gone"), "nothing")
	outside.commit("fine", "links that stay in it")
	link(t, filepath.Join(outside.dir, "passwd"), "../../../etc/passwd")
	outside.commit("more", "a link that leads out")
	if tree, err := Fetch(t.Context(), Source{Path: outside.dir, Commit: outside.git("rev-parse", "out~1")}); err != nil {
		t.Error(err)
	} else if content, _ := filesOf(t, tree); content["here"] != "file" || content["gone"] != "nothing" {
		t.Errorf("links that stay in the repository are %q", content)
	}
	bomb := newRepo(t)
	leaf := bomb.git("rev-parse", "main^{tree}")
	for range 6 { // each directory has ten times the same one in it
		var entries strings.Builder
		for name := range 10 {
			fmt.Fprintf(&entries, "040000 tree %s\t%d\n", leaf, name)
		}
		bomb.write("entries", entries.String())
		leaf = bomb.git("-c", "alias.of=!git mktree <entries", "of")
	}
	bomb.git("update-ref", "refs/heads/main", bomb.git("commit-tree", "-m", "bomb", leaf))
	long := repo{t, t.TempDir()}
	long.git("init", "--quiet", "--object-format=sha256", "--initial-branch=main", ".")
	long.commit("file", "first")
	for _, test := range []struct {
		source Source
		want   string
	}{
		{Source{Path: long.dir}, "its objects have SHA-256 names"},
		{Source{Path: long.dir, Commit: "main", Depth: 1}, "its objects have SHA-256 names"},
		{Source{Path: r.dir, Commit: "none"}, "couldn't find remote ref none"},
		{Source{Path: t.TempDir()}, "does not appear to be a git repository"},
		{Source{Path: outside.dir, Commit: "out"}, "the link passwd leads out of it"},
		{Source{Path: bomb.dir}, "more than 100000 files and directories"},
		{Source{Path: "ext::sh -c true", Remote: true}, "transport 'ext' not allowed"},
		{Source{Path: "ssh://127.0.0.1/x", Remote: true}, "transport 'ssh' not allowed"},
		{Source{Path: "file://" + r.dir, Remote: true}, "transport 'file' not allowed"},
		{Source{Path: "http://127.0.0.1/x", Remote: true}, "transport 'http' not allowed"},
	} {
		_, err := Fetch(t.Context(), test.source)
		var refusal RefusedError
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.source, err, test.want)
		}
	}
}

// A repository of another user is read if the user's git reads it.
func TestSafeDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a repository to another user")
	}
	r := newRepo(t)
	err := filepath.WalkDir(r.dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 12345, 12345))
	})
	if err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	others := "[uploadpack]\n\tpackObjectsHook = touch " + ran + "; false\n[core]\n\tsshCommand = touch " + ran + "\n[url \"/nowhere\"]\n\tinsteadOf = " + r.dir + "\n"
	home := filepath.Dir(r.dir)
	for _, test := range []struct {
		name, config string
		env          []string
		trusted      bool
	}{
		{"nothing", "", nil, false},
		{"all", "[safe]\n\tdirectory = *\n" + others, nil, true},
		{"its directory", "[safe]\n\tdirectory = " + r.dir + "\n", nil, true},
		{"its directory, from home", "[safe]\n\tdirectory = ~/" + filepath.Base(r.dir) + "\n", nil, true},
		{"another one", "[safe]\n\tdirectory = " + r.dir + "x\n\tdirectory = \"a\\\"\\n[core]\\\\\"\n", nil, false},
		{"all and then none", "[safe]\n\tdirectory = *\n\tdirectory =\n", nil, false},
		{"by the environment", "", []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=" + r.dir}, true},
		{"for sudo", "", []string{"SUDO_UID=12345"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(config, []byte(test.config), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, v := range append(test.env, "GIT_CONFIG_GLOBAL="+config, "HOME="+home, "GIT_DIR="+t.TempDir()) {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			_, err := Fetch(t.Context(), Source{Path: r.dir})
			if test.trusted != (err == nil) || err != nil && !strings.Contains(err.Error(), "it belongs to another user; if you trust it, run git config --global --add safe.directory '"+r.dir+"'") {
				t.Errorf("%v", err)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("other configuration of the user came in")
			}
		})
	}
}

func link(t *testing.T, name, target string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// A repository has programs run by git in each way that its files and its configuration
// have. Git that is called as usual runs them.
func TestHostileRepository(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	ran := filepath.Join(t.TempDir(), "ran")
	script := "#!/bin/sh\ntouch " + ran + "\ncat\n"
	for _, hook := range []string{"post-checkout", "pre-checkout", "reference-transaction", "post-index-change", "fsmonitor", "upload"} {
		r.write(".git/hooks/"+hook, script)
	}
	sub := newRepo(t)
	r.git("submodule", "--quiet", "add", sub.dir, "sub")
	r.commit(".gitattributes", "* filter=evil diff=evil\n")
	for key, value := range map[string]string{
		"core.fsmonitor": ".git/hooks/fsmonitor", "filter.evil.smudge": ".git/hooks/upload",
		"uploadpack.packObjectsHook": r.dir + "/.git/hooks/upload", "core.sshCommand": "touch " + ran, "core.alternateRefsCommand": "touch " + ran,
		"remote.origin.url": r.dir, "remote.origin.uploadpack": "touch " + ran + "; false", "remote.origin.promisor": "true",
	} {
		r.git("config", key, value)
	}
	if err := os.Remove(ran); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	tree, err := Fetch(t.Context(), Source{Path: r.dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it ran a program")
	}
	content, names := filesOf(t, tree)
	if content["file"] != "second" || slices.Contains(names, "sub/file") {
		t.Errorf("it has %q", names)
	}
	r.git("checkout", "--quiet", "v1")
	if _, err := os.Stat(ran); err != nil {
		t.Errorf("nothing here is an attack: %v", err)
	}
}

// overHTTPS serves repositories as git's own program does, at a host of that name, and has
// this process's git trust it.
func overHTTPS(t *testing.T, root string) (host string, dial dialFunc) {
	t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skip("there is no git")
	}
	backend := filepath.Join(strings.TrimSpace(string(path)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("there is no git-http-backend")
	}
	handler := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to, ok := strings.CutPrefix(r.URL.Path, "/elsewhere/"); ok {
			http.Redirect(w, r, "https://"+to, http.StatusMovedPermanently)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(trusted, ca, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_SSL_CAINFO", trusted)
	return "example.com", func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "example.com:443" {
			t.Errorf("it dials %s", address)
		}
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
}

func TestClone(t *testing.T) {
	r := newRepo(t)
	host, dial := overHTTPS(t, filepath.Dir(r.dir))
	at := "https://" + host + "/" + filepath.Base(r.dir)
	for _, commit := range []string{"", "v1", r.git("rev-parse", "v1")} {
		tree, err := fetch(t.Context(), Source{Path: at, Remote: true, Commit: commit, Depth: 1}, dial)
		if err != nil {
			t.Fatal(err)
		}
		content, names := filesOf(t, tree)
		if want := map[bool]string{true: "second", false: "first"}[commit == ""]; content["file"] != want || !slices.Contains(names, ".git/shallow") {
			t.Errorf("at %q it has %q, %q", commit, content, names)
		}
	}
	forbidden := func(context.Context, string, string) (net.Conn, error) {
		t.Error("a connection was made without leave to fetch")
		return nil, errors.New("no")
	}
	if _, err := fetch(offline.Context(t.Context()), Source{Path: at, Remote: true, Depth: 1}, forbidden); !errors.Is(err, offline.ErrOffline) {
		t.Errorf("offline: %v", err)
	}
	if _, err := Fetch(offline.Context(t.Context()), Source{Path: r.dir}); err != nil {
		t.Errorf("a directory, offline: %v", err)
	}
	for _, test := range []struct{ at, want string }{
		{"https://" + host + "/none", "not found"},
		{"https://" + host + "/elsewhere/127.0.0.1/x", "unable to access"},
	} {
		if _, err := fetch(t.Context(), Source{Path: test.at, Remote: true, Depth: 1}, dial); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.at, err, test.want)
		}
	}
}

// Git reaches the one host and port through the proxy, and that at public addresses alone.
func TestProxy(t *testing.T) {
	t.Parallel()
	const source = "https://repo.example.com/x"
	p, err := listen(source, dialer(source))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	for _, to := range []string{"127.0.0.1:443", "repo.example.com:22", "other.example.com:443"} {
		r := httptest.NewRequest(http.MethodConnect, "http://"+to, nil)
		w := httptest.NewRecorder()
		if p.ServeHTTP(w, r); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d %s", to, w.Code, w.Body)
		}
	}
	var refused *egress.AddressError
	if _, err := dialer(source)(t.Context(), "tcp", p.listener.Addr().String()); !errors.As(err, &refused) {
		t.Errorf("an address of this machine is dialled: %v", err)
	}
}
