// Package gitrepo fetches a commit of a git repository for a workspace, from a local path or
// over https, with this machine's git command.
//
// The repository is not trusted. Git reads only the configuration that this package sets, which
// takes nothing from the user's except safe.directory. It runs no hook, filter, credential helper
// or other program that the repository names. It fetches no submodules, and uses only the protocol
// of the source. Sizes are checked before anything is checked out, and links that lead out of the
// repository are rejected. Over https, git connects through a proxy of this package, which only
// reaches the source's host at public addresses.
//
// The memory that git itself uses is not limited.
package gitrepo

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/offline"
	"github.com/waza-isolate/waza/internal/proc"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/internal/tree"
)

const (
	maxBytes   = eval.MaxWorkspaceBytes // of all files, and again including the history
	maxEntries = 100_000                // files and directories
	timeout    = 10 * time.Minute
	// killTimeout bounds waiting for the output of a git process that was killed.
	killTimeout = 5 * time.Second
)

// RefusedError is why a repository cannot be used as the eval names it.
type RefusedError string

func (e RefusedError) Error() string { return string(e) }

// Source identifies a commit of a repository.
type Source struct {
	Path   string // absolute path of a directory or bundle, or an https URL
	Remote bool   // whether Path is a URL
	Commit string // branch, tag or commit; empty for HEAD
	Depth  int    // number of commits of history; 0 for all
}

// head is the reference to the commit while it is fetched.
const head = "refs/waza/head"

// Tree is a tar of a repository with a commit checked out and its history. It is stored in an
// unlinked file, which is freed when the process exits.
type Tree struct {
	Commit string // SHA-1 or SHA-256
	file   *os.File
	size   int64
}

// Open returns a reader for the tar.
func (t *Tree) Open() io.Reader { return io.NewSectionReader(t.file, 0, t.size) }

// Fetch fetches a commit of a repository. The error wraps a [RefusedError] if the repository
// does not exist, lacks the commit, or is not accepted.
func Fetch(ctx context.Context, repo Source) (*Tree, error) {
	return fetch(ctx, repo, dialer(repo.Path))
}

func fetch(ctx context.Context, repo Source, dial dialFunc) (*Tree, error) {
	if repo.Remote {
		if err := offline.Check(ctx, "the repository "+repo.Path); err != nil {
			return nil, err
		}
	}
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, refused("inputs.repos needs the git command, which is not in PATH")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	home, err := os.MkdirTemp("", "waza-repo-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(home) }()
	g := git{program: program, home: home, dir: filepath.Join(home, "tree"), protocol: "file", config: "/dev/null"}
	if repo.Remote {
		g.protocol = "https"
		proxy, err := listen(repo.Path, dial)
		if err != nil {
			return nil, err
		}
		defer proxy.close()
		g.proxy = proxy.url()
	} else {
		repo.Path = top(repo.Path)
		if g.config, err = g.trusted(ctx); err != nil {
			return nil, err
		}
	}
	commit, err := g.fetch(ctx, repo)
	if err == nil {
		err = g.checkOut(ctx, commit)
	}
	if err != nil {
		return nil, fmt.Errorf("repository %s: %w", repo.Path, err)
	}
	t, err := g.pack(commit)
	if err != nil {
		return nil, fmt.Errorf("repository %s: %w", repo.Path, err)
	}
	return t, nil
}

// top returns the root of the repository that a directory is in. If there is none, it returns
// source: a bundle, or a repository without a worktree.
func top(source string) string {
	for dir := source; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return source
		}
	}
}

// git runs the git command on the repository in dir.
type git struct {
	program, home, dir string
	protocol           string // the only allowed protocol
	proxy              string // empty for none
	config             string // file that git reads as the user's configuration
}

// trusted returns a configuration file with the user's safe.directory, which lists the repositories
// of other users that the user's git reads.
func (g git) trusted(ctx context.Context) (file string, err error) {
	cmd := exec.CommandContext(ctx, g.program, "config", "-z", "--type=path", "--get-all", "safe.directory")
	cmd.Dir = g.home
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GIT_") && !strings.HasPrefix(v, "GIT_CONFIG") || strings.HasPrefix(v, "GIT_CONFIG=")
	})
	cmd.Env = append(cmd.Env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(g.home)) // no repository's configuration
	proc.Own(cmd, killTimeout)
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", fmt.Errorf("git config: %w", context.Cause(ctx))
	}
	if err != nil { // safe.directory is not set
		return "/dev/null", nil
	}
	var config strings.Builder
	config.WriteString("[safe]\n")
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	for directory := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		fmt.Fprintf(&config, "\tdirectory = \"%s\"\n", escape.Replace(directory))
		if strings.HasPrefix(directory, "/") { // git asks for the directory's .git if it fetches from it
			fmt.Fprintf(&config, "\tdirectory = \"%s/.git\"\n", escape.Replace(strings.TrimRight(directory, "/")))
		}
	}
	file = filepath.Join(g.home, "config")
	return file, os.WriteFile(file, []byte(config.String()), 0o600)
}

// fetch creates the repository and fetches into it: all branches and tags, or with a depth only
// the commit.
func (g git) fetch(ctx context.Context, repo Source) (commit string, err error) {
	if _, err := g.run(ctx, "init", "--quiet", "--template=", g.dir); err != nil {
		return "", err
	}
	fetch := []string{"fetch", "--quiet", "--update-head-ok", "--no-write-fetch-head", "--no-recurse-submodules"}
	if repo.Depth > 0 {
		fetch = append(fetch, "--no-tags", "--depth", strconv.Itoa(repo.Depth))
	} else {
		if _, err := g.run(ctx, append(fetch, "--", repo.Path, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")...); err != nil {
			return "", err
		}
		if repo.Commit != "" {
			if commit, err = g.parse(ctx, repo.Commit); err == nil {
				return commit, nil
			}
		}
	}
	_, err = g.run(ctx, append(fetch, "--", repo.Path, "+"+cmp.Or(repo.Commit, "HEAD")+":"+head)...)
	if err != nil && !repo.Remote && repo.Commit != "" { // a clone has most branches of its origin only as remote-tracking branches
		if _, other := g.run(ctx, append(fetch, "--", repo.Path, "+refs/remotes/origin/"+repo.Commit+":"+head)...); other == nil {
			err = nil
		}
	}
	if err != nil {
		return "", err
	}
	return g.parse(ctx, head)
}

func (g git) parse(ctx context.Context, name string) (commit string, err error) {
	out, err := g.run(ctx, "rev-parse", "--verify", "--end-of-options", name+"^{commit}")
	return strings.TrimSpace(string(out)), err
}

// checkOut checks out the commit, if it is not too large.
func (g git) checkOut(ctx context.Context, commit string) error {
	if err := g.measure(ctx, commit); err != nil {
		return err
	}
	if _, err := g.run(ctx, "checkout", "--quiet", "--detach", commit, "--"); err != nil {
		return err
	}
	_, err := g.run(ctx, "update-ref", "-d", head)
	return err
}

// measure returns an error if a commit has too many files or too large files. It runs before the
// checkout, because a few objects can expand to any number of files.
func (g git) measure(ctx context.Context, commit string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := g.command(ctx, "ls-tree", "-r", "-t", "-z", "--long", "--full-tree", commit)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	var entries, bytes int64
	lines := bufio.NewScanner(out)
	lines.Split(untilNUL)
	for lines.Scan() {
		entries++
		if fields := strings.Fields(lines.Text()); len(fields) > 3 {
			size, _ := strconv.ParseInt(fields[3], 10, 64) // "-" for directories
			bytes += min(size, maxBytes+1)
		}
		if entries > maxEntries || bytes > maxBytes {
			cancel()
			_ = cmd.Wait()
			return refused("a checkout has more than %d files and directories, or more than %d MiB", maxEntries, maxBytes>>20)
		}
	}
	if err := lines.Err(); err != nil {
		cancel()
		_ = cmd.Wait()
		return err
	}
	return cmd.Wait()
}

func untilNUL(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	return 0, nil, nil
}

// pack writes the repository as a tar.
func (g git) pack(commit string) (*Tree, error) {
	root, err := os.OpenRoot(g.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	file, err := os.CreateTemp(g.home, "tar")
	if err != nil {
		return nil, err
	}
	out := &bounded.Head{W: file, Limit: maxBytes, Fail: refused("it is larger than %d MiB with its history; give it a depth", maxBytes>>20)}
	err = errors.Join(os.Remove(file.Name()), tree.Pack(root, ".", nil, out))
	packed := &Tree{Commit: commit, file: file, size: out.Size()}
	if err == nil {
		err = packed.check(root)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return packed, nil
}

// check returns an error if a tree, packed from root, is incomplete or has a link that leads
// out of it.
func (t *Tree) check(root *os.Root) error {
	for e, err := range tree.Entries(t.Open()) {
		if err != nil {
			return err
		}
		if why := e.Cut(); why != "" {
			return refused("%s is not taken: %s", text.Inert(e.Name), why)
		}
		if e.Kind() != tree.Link {
			continue
		}
		if _, err := root.Stat(e.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return refused("the link %s leads out of it", text.Inert(e.Name))
		}
	}
	return nil
}

// run runs git and returns its output. A failure of git is a [RefusedError].
func (g git) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := g.command(ctx, args...)
	said := &bounded.Ends{Tail: 4 << 10}
	cmd.Stderr = said
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	case errors.As(err, &exit):
		return nil, refused("git %s: %s", args[0], cmp.Or(explain(said.String()), fatal(said.String()), err.Error()))
	}
	return out, err
}

// command returns a git command that ignores this machine's configuration and environment, and
// that cannot write files larger than the limit.
func (g git) command(ctx context.Context, args ...string) *exec.Cmd {
	settings := []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "credential.helper=", "http.followRedirects=false",
		"core.logAllRefUpdates=false", "fetch.unpackLimit=1", "gc.auto=0", "maintenance.auto=false", "init.defaultBranch=main", "advice.detachedHead=false",
	}
	if g.proxy != "" {
		settings = append(settings, "http.proxy="+g.proxy)
	}
	// ulimit -f counts blocks of 512 bytes.
	all := []string{"-c", fmt.Sprintf(`ulimit -f %d && exec "$0" "$@"`, maxBytes/512), g.program}
	for _, setting := range settings {
		all = append(all, "-c", setting)
	}
	cmd := exec.CommandContext(ctx, "sh", append(all, args...)...)
	cmd.Dir = g.home
	if args[0] != "init" {
		cmd.Dir = g.dir
	}
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + g.home, "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=" + g.config, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "GIT_ALLOW_PROTOCOL=" + g.protocol, "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_CEILING_DIRECTORIES=" + g.home,
	}
	// Certificate authorities that this machine trusts, and the user that git trusts besides root.
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "SUDO_UID"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	proc.Own(cmd, killTimeout)
	return cmd
}

// foreign matches git's error about a repository of another user.
var foreign = regexp.MustCompile(`(?:dubious ownership in|unsafe) repository(?: at|) ?\(?'([^'\n]*)'`)

// explain returns what git's output means for the user, or "".
func explain(said string) string {
	if found := foreign.FindStringSubmatch(said); found != nil {
		path := text.Inert(strings.TrimSuffix(found[1], "/.git"))
		return fmt.Sprintf("it belongs to another user; if you trust it, run git config --global --add safe.directory '%s'", path)
	}
	if strings.Contains(said, "mismatched algorithms") || strings.Contains(said, "unknown repository extension found:\n\tobjectformat") {
		return "its objects have SHA-256 names, and only repositories with SHA-1 are supported; convert it, or give its files with inputs.files"
	}
	return ""
}

// fatal returns the first line of git's output that starts with "fatal: ", or the last line.
func fatal(said string) (last string) {
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(text.Inert(line)); line != "" && !strings.HasPrefix(last, "fatal: ") {
			last = line
		}
	}
	return strings.TrimPrefix(last, "fatal: ")
}

func refused(format string, args ...any) error { return RefusedError(fmt.Sprintf(format, args...)) }
