package eval

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// ClientConfigs returns the paths of the agent's mcp.json in the workspace.
func ClientConfigs() []string { return []string{".mcp.json", ".copilot/mcp.json"} }

// files returns the task's files, and the paths that are taken.
func (r resolver) files() ([]WorkspaceFile, claims) {
	var files []WorkspaceFile
	taken := newClaims(r.eval.Config.Isolation)
	planted := r.eval.Config.plantedFiles()
	for _, name := range slices.Sorted(maps.Keys(planted)) {
		taken.claim(name, fmt.Sprintf("the eval's canary %q", planted[name]))
		taken.appendable[name] = true
	}
	total := int64(0)
	for _, file := range r.fixture() {
		if other := taken.claim(file.Path, "a file of inputs.context.fixture"); other != "" {
			r.doc.Problemf(strictyaml.Path{"inputs", "context", "fixture"}, "file %q of the fixture is in the way of %s; %s", file.Path, other, remedy(file.Path))
		}
		total += file.Size()
		files = append(files, file)
	}
	for i, f := range r.task.Inputs.Files {
		at := strictyaml.Path{"inputs", "files", i, "path"}
		for _, file := range r.filesOf(f, at) {
			if other := taken.claim(file.Path, "another file of this task"); other != "" {
				r.doc.Problemf(at, "file %q is in the way of %s; %s", file.Path, other, remedy(file.Path))
			}
			total += file.Size()
			files = append(files, file)
			taken.appendable[file.Path] = true
		}
	}
	if len(files) > maxFiles {
		r.doc.Problemf(strictyaml.Path{"inputs", "files"}, "the task has more than %d files", maxFiles)
	}
	if total > MaxWorkspaceBytes {
		r.doc.Problemf(strictyaml.Path{"inputs", "files"}, "the task's files are larger than %d MiB together", MaxWorkspaceBytes>>20)
	}
	return files, taken
}

// claims holds the used paths of a workspace with their owners.
type claims struct {
	files, dirs map[string]string
	appendable  map[string]bool // of files, those that more can be added to
}

// newClaims returns claims with the paths of waza's own files.
func newClaims(iso Isolation) claims {
	taken := claims{files: map[string]string{}, dirs: map[string]string{}, appendable: map[string]bool{}}
	if iso.MCPJSON != "keep" {
		for _, config := range ClientConfigs() {
			taken.claim(config, "the mcp.json that waza puts there")
		}
	}
	return taken
}

// claim reserves name for owner. If it is in use as a file or directory, or needs a
// directory that is a file, it returns the other owner.
func (c claims) claim(name, owner string) (other string) {
	if other = cmp.Or(c.files[name], c.dirs[name]); other != "" {
		return other
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if c.files[dir] != "" {
			return c.files[dir]
		}
		c.dirs[dir] = owner
	}
	c.files[name] = owner
	return ""
}

func remedy(name string) string {
	for _, config := range ClientConfigs() {
		if name == config || strings.HasPrefix(config, name+"/") {
			return "remove it, or set config.isolation.mcp_json: keep"
		}
	}
	return "remove one of them"
}

// filesOf returns the file that an entry names, or all files of the directory that it names.
func (r resolver) filesOf(f File, at strictyaml.Path) []WorkspaceFile {
	dir := filepath.Join(r.fixtures, filepath.FromSlash(f.Path))
	names := []string{""}
	if info, err := os.Stat(dir); f.Content == nil && f.Path != "" && files.IsInside(f.Path) && err == nil && info.IsDir() {
		if names, err = filesBelow(dir, func(string, fs.DirEntry) bool { return false }); err != nil {
			r.doc.Problemf(at, "directory %q: %v", f.Path, err)
		}
	}
	var files []WorkspaceFile
	for _, name := range names {
		one := f
		if name != "" {
			one.Path = path.Join(f.Path, name)
		}
		if file, ok := r.file(one, at); ok {
			files = append(files, file)
		}
	}
	return files
}

func (r resolver) file(f File, at strictyaml.Path) (WorkspaceFile, bool) {
	if f.Path == "" {
		r.doc.Warnf(at, "a file without a path is not written, here or in waza; add its path")
		return WorkspaceFile{}, false
	}
	clean := path.Clean(f.Path)
	if !files.IsInside(f.Path) || clean == "." {
		r.doc.Problemf(at, "file %q must be a path in the workspace, relative, with / and without ..", f.Path)
		return WorkspaceFile{}, false
	}
	if f.Content != nil {
		return WorkspaceFile{Path: clean, Content: []byte(*f.Content)}, true
	}
	source, err := local(r.fixtures, filepath.FromSlash(clean))
	if err != nil {
		r.doc.Problemf(at, "file %q %v", f.Path, err)
		return WorkspaceFile{}, false
	}
	return WorkspaceFile{Path: clean, Source: &source}, true
}

// fixture returns the files of inputs.context.fixture: one file, or those of a directory.
func (r resolver) fixture() []WorkspaceFile {
	name, ok := r.task.Inputs.Context["fixture"].(string)
	if !ok || name == "" {
		return nil
	}
	at := strictyaml.Path{"inputs", "context", "fixture"}
	if !files.IsInside(name) {
		r.doc.Problemf(at, "inputs.context.fixture must be a relative path that does not lead out")
		return nil
	}
	for _, root := range []string{r.eval.Dir(), r.fixtures} {
		info, err := statIn(root, name)
		if err != nil {
			continue
		}
		files, err := fixtureFiles(root, path.Clean(name), info)
		if err != nil {
			r.doc.Problemf(at, "inputs.context.fixture: %v", err)
		}
		return files
	}
	r.doc.Problemf(at, "inputs.context.fixture: there is no %s in %s, nor among its fixtures", name, show(r.eval.Dir()))
	return nil
}

// fixtureFiles returns a regular file, or all files of a directory by their paths in it.
func fixtureFiles(root, name string, info fs.FileInfo) ([]WorkspaceFile, error) {
	if !info.IsDir() {
		source, err := local(root, filepath.FromSlash(name))
		if err != nil {
			return nil, fmt.Errorf("file %s %w", name, err)
		}
		return []WorkspaceFile{{Path: path.Base(name), Source: &source}}, nil
	}
	dir := filepath.Join(root, filepath.FromSlash(name))
	names, err := filesBelow(dir, func(_ string, entry fs.DirEntry) bool { return entry.IsDir() && entry.Name() == ".git" })
	var files []WorkspaceFile
	for _, name := range names {
		source, errFile := local(dir, filepath.FromSlash(name))
		if errFile != nil {
			return files, fmt.Errorf("file %s %w", filepath.Join(dir, name), errFile)
		}
		files = append(files, WorkspaceFile{Path: name, Source: &source})
	}
	return files, err
}

// Sources of a repository.
const (
	repoWorktree = "worktree" // a directory of this machine, or a bundle
	repoClone    = "clone"    // https
)

// Repo is a git repository of the workspace, with one commit checked out.
type Repo struct {
	_ struct{} `unknown:"warn"`

	Type   string `json:"type,omitempty" enum:"worktree clone" jsonschema:"worktree: of a directory or a bundle of this machine; clone: over https; default by the source"`
	Source string `json:"source" jsonschema:"path of a repository, of a directory in one or of a git bundle, or an https URL; a path is relative to the eval, else to the directory waza was started in"`
	Commit string `json:"commit,omitempty" jsonschema:"branch, tag or commit to check out, as a detached HEAD; a branch that a clone has only as origin/NAME is found as NAME; default HEAD"`
	Dest   string `json:"dest" jsonschema:"directory of the workspace that it becomes; no other file of the task may be in it"`
	Depth  int    `json:"depth,omitempty" min:"1" max:"1000000" jsonschema:"commits of history; default all of a worktree, and 1 of a clone"`
}

// IsRemote reports whether the repository is fetched over the network.
func (r Repo) IsRemote() bool { return r.Type == repoClone }

// refPattern matches the names of branches, tags and commits that are allowed, up to maxRef bytes.
var refPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./+#@-]*$`)

const maxRef = 255

// repos returns the task's repositories, and claims their directories.
func (r resolver) repos(taken claims) (found []Repo) {
	for i, repo := range r.task.Inputs.Repos {
		at := strictyaml.Path{"inputs", "repos", i}
		problem := func(key, format string, args ...any) {
			r.doc.Problemf(append(at, key), "inputs.repos[%d].%s "+format, append([]any{i, key}, args...)...)
		}
		if dest := path.Clean(repo.Dest); repo.Dest != "" && (!files.IsInside(repo.Dest) || dest == ".") {
			problem("dest", "must be a directory in the workspace, relative, with / and without ..")
		} else if repo.Dest = dest; repo.Dest != "." {
			if other := taken.claim(dest, "a repository of this task"); other != "" {
				problem("dest", "is in the way of %s; %s", other, remedy(dest))
			}
		}
		if repo.Commit != "" && (len(repo.Commit) > maxRef || !refPattern.MatchString(repo.Commit) || strings.Contains(repo.Commit, "..")) {
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

// checkRepoURL checks that a URL is https and its host name public.
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
		return errors.New("must have a public host name, since the runner does not clone from private addresses; name such a repository by its path")
	}
	return nil
}

// repoPath returns the absolute path of a repository on this machine.
func (r resolver) repoPath(source string) (string, error) {
	roots := r.eval.roots()
	if filepath.IsAbs(source) {
		roots = []string{""}
	}
	for _, root := range roots {
		if found := filepath.Join(root, filepath.FromSlash(source)); exists(found) {
			return filepath.Abs(found)
		}
	}
	return "", fmt.Errorf("%s does not exist; name a directory or a git bundle, relative to the eval or to the directory that waza is started in", source)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
