package eval

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Where a repository comes from.
const (
	repoWorktree = "worktree" // a directory of this machine, or a bundle
	repoClone    = "clone"    // https
)

// Repo is a git repository of the workspace, with one commit checked out.
type Repo struct {
	_ struct{} `unknown:"warn"`

	Type   string `json:"type,omitempty" enum:"worktree clone" jsonschema:"worktree: of a directory or a bundle of this machine; clone: over https; default by the source"`
	Source string `json:"source" jsonschema:"path of a repository or of a git bundle, absolute or relative as other paths are, or an https URL"`
	Commit string `json:"commit,omitempty" jsonschema:"branch, tag or commit; default HEAD"`
	Dest   string `json:"dest" jsonschema:"directory of the workspace that it becomes"`
	Depth  int    `json:"depth,omitempty" min:"1" max:"1000000" jsonschema:"commits of history; default all of a worktree, and 1 of a clone"`
}

// IsRemote reports whether the repository is fetched over the network.
func (r Repo) IsRemote() bool { return r.Type == repoClone }

// refPattern is what names of branches, tags and commits match that are taken.
var refPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./+#@-]{0,254}$`)

// repos finds the task's repositories, and has their directories for themselves.
func (r resolver) repos(taken claims) (found []Repo) {
	for i, repo := range r.task.Inputs.Repos {
		at := strictyaml.Path{"inputs", "repos", i}
		problem := func(key, format string, args ...any) {
			r.doc.Problemf(append(at, key), "inputs.repos[%d].%s "+format, append([]any{i, key}, args...)...)
		}
		if dest := path.Clean(repo.Dest); repo.Dest != "" && (!isInside(repo.Dest) || dest == ".") {
			problem("dest", "must be a directory in the workspace, relative and without leading out")
		} else if repo.Dest = dest; repo.Dest != "." {
			if other := taken.claim(dest, "a repository of this task"); other != "" {
				problem("dest", "is in the way of %s; %s", other, remedy(dest))
			}
		}
		if repo.Commit != "" && (!refPattern.MatchString(repo.Commit) || strings.Contains(repo.Commit, "..")) {
			problem("commit", "must name a branch, a tag or a commit")
		}
		if repo.Source == "" {
			continue // reported as missing
		}
		var err error
		isURL := strings.Contains(repo.Source, "://")
		switch repo.Type = cmp.Or(repo.Type, map[bool]string{false: repoWorktree, true: repoClone}[isURL]); {
		case repo.IsRemote():
			repo.Depth = cmp.Or(repo.Depth, 1)
			err = checkRepoURL(repo.Source)
		case isURL:
			err = errors.New("must be a path for type worktree; type clone takes an https URL")
		default:
			repo.Source, err = r.repoPath(repo.Source)
		}
		if err != nil {
			problem("source", "%v", err)
		}
		found = append(found, repo)
	}
	return found
}

// checkRepoURL holds that a URL is one of https, of a host that has a public name.
func checkRepoURL(source string) error {
	u, err := url.Parse(source)
	switch {
	case err != nil || u.Scheme != "https" || u.Opaque != "":
		return errors.New("must be an https URL for type clone; no other protocol is spoken")
	case u.User != nil:
		return errors.New("must not hold credentials; a repository that needs them can be cloned before the run, and named by its path")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("must not have a query or a fragment")
	}
	if _, err := mcpconfig.ReadHostName(u.Hostname()); err != nil || mcpconfig.IsNearbyName(u.Hostname()) {
		return errors.New("must have a public host name: the runner clones from no address of its own network; name such a repository by its path")
	}
	return nil
}

// repoPath is the absolute path of a repository of this machine.
func (r resolver) repoPath(source string) (string, error) {
	roots := r.loader.eval.roots()
	if filepath.IsAbs(source) {
		roots = []string{""}
	}
	for _, root := range roots {
		if found := filepath.Join(root, filepath.FromSlash(source)); exists(found) {
			return filepath.Abs(found)
		}
	}
	return "", fmt.Errorf("%s is not there: it is a directory or a git bundle, from the eval's directory or the one that waza is started in", source)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
