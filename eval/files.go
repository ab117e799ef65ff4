package eval

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
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

// Bounds of what a task puts into its workspace.
const (
	MaxFileBytes      = 64 << 20
	MaxWorkspaceBytes = 256 << 20

	maxTaskFiles = 10_000
)

// WorkspaceFile is a file of the workspace before the agent starts.
type WorkspaceFile struct {
	Path    string  // in the workspace: clean, relative, with slashes
	Content []byte  // where the task file holds it
	Source  *Source // else
	Added   []byte  // behind either
}

// Open reads the file's content.
func (f WorkspaceFile) Open() (io.ReadCloser, error) {
	if f.Source == nil {
		return io.NopCloser(io.MultiReader(bytes.NewReader(f.Content), bytes.NewReader(f.Added))), nil
	}
	source, err := f.Source.Open()
	if err != nil {
		return nil, err
	}
	return withMore{io.MultiReader(source, bytes.NewReader(f.Added)), source}, nil
}

// withMore reads a file and what is behind it.
type withMore struct {
	io.Reader
	io.Closer
}

// Size is the number of bytes the file had when the task was resolved.
func (f WorkspaceFile) Size() int64 {
	if f.Source == nil {
		return int64(len(f.Content) + len(f.Added))
	}
	return f.Source.Size + int64(len(f.Added))
}

// Executable reports whether the file may be run.
func (f WorkspaceFile) Executable() bool { return f.Source != nil && f.Source.Executable }

// Source is a regular file below a directory.
type Source struct {
	Dir, Path  string
	Size       int64
	Executable bool
}

// Open opens the file. A link that leads out of the directory is not followed.
func (s Source) Open() (io.ReadCloser, error) { return os.OpenInRoot(s.Dir, s.Path) }

// read reads the whole file, of at most so many bytes. Its errors go on behind the file's
// name.
func (s Source) read(most int64) ([]byte, error) {
	file, err := s.Open()
	if err != nil {
		return nil, errors.New("cannot be read: " + cause(err))
	}
	content, err := files.ReadFrom(file, most)
	switch err := errors.Join(err, file.Close()); {
	case errors.Is(err, files.ErrTooLarge):
		return nil, err
	case err != nil:
		return nil, errors.New("cannot be read: " + cause(err))
	}
	return content, nil
}

// ClientConfigs are the places in the workspace where the agent finds its
// mcp.json.
func ClientConfigs() []string { return []string{".mcp.json", ".copilot/mcp.json"} }

// files finds the task's files, and says which paths are taken.
func (r resolver) files(fixture []WorkspaceFile) ([]WorkspaceFile, claims) {
	var files []WorkspaceFile
	taken := newClaims(r.loader.eval.Config.Isolation)
	planted := r.loader.eval.Config.plantedFiles()
	for _, name := range slices.Sorted(maps.Keys(planted)) {
		taken.claim(name, fmt.Sprintf("the eval's canary %q", planted[name]))
		taken.appendable[name] = true
	}
	total := int64(0)
	for _, file := range fixture {
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
	if len(files) > maxTaskFiles {
		r.doc.Problemf(strictyaml.Path{"inputs", "files"}, "the task has more than %d files", maxTaskFiles)
	}
	if total > MaxWorkspaceBytes {
		r.doc.Problemf(strictyaml.Path{"inputs", "files"}, "the task's files are larger than %d MiB together", MaxWorkspaceBytes>>20)
	}
	return files, taken
}

// claims are the paths of a workspace that are spoken for, and by whom.
type claims struct {
	files, dirs map[string]string
	appendable  map[string]bool // of files, those that more can be added to
}

// newClaims has nothing but what is ours.
func newClaims(iso Isolation) claims {
	taken := claims{files: map[string]string{}, dirs: map[string]string{}, appendable: map[string]bool{}}
	if iso.MCPJSON != "keep" {
		for _, config := range ClientConfigs() {
			taken.claim(config, "the mcp.json that waza puts there")
		}
	}
	return taken
}

// claim takes name for owner, unless it is taken: as a file, as a directory, or
// by a file where name needs a directory. It returns who has it already.
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

// filesOf are the file that an entry names, or all files of the directory that it names.
func (r resolver) filesOf(f File, at strictyaml.Path) []WorkspaceFile {
	dir := filepath.Join(r.loader.fixtures(), filepath.FromSlash(f.Path))
	info, err := os.Stat(dir)
	if f.Content != nil || f.Path == "" || !isInside(f.Path) || err != nil || !info.IsDir() {
		if file, ok := r.file(f, at); ok {
			return []WorkspaceFile{file}
		}
		return nil
	}
	var files []WorkspaceFile
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || len(files) > maxTaskFiles {
			return err
		}
		rel, err := filepath.Rel(r.loader.fixtures(), name)
		if err != nil {
			return err
		}
		file, ok := r.file(File{Path: filepath.ToSlash(rel)}, at)
		if ok {
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		r.doc.Problemf(at, "directory %q cannot be read: %s", f.Path, cause(err))
	}
	return files
}

func (r resolver) file(f File, at strictyaml.Path) (WorkspaceFile, bool) {
	if f.Path == "" {
		return WorkspaceFile{}, false // reported as missing
	}
	clean := path.Clean(f.Path)
	if !isInside(f.Path) || clean == "." {
		r.doc.Problemf(at, "file %q must be a path in the workspace, relative and without leading out", f.Path)
		return WorkspaceFile{}, false
	}
	if f.Content != nil {
		return WorkspaceFile{Path: clean, Content: []byte(*f.Content)}, true
	}
	source, err := local(r.loader.fixtures(), filepath.FromSlash(clean))
	if err != nil {
		r.doc.Problemf(at, "file %q %v", f.Path, err)
		return WorkspaceFile{}, false
	}
	return WorkspaceFile{Path: clean, Source: &source}, true
}

// fixtures is the directory that files without content come from.
func (l *loader) fixtures() string {
	if l.taskContext != "" {
		return l.taskContext
	}
	if l.opts.ContextDir != "" {
		return l.opts.ContextDir
	}
	return filepath.Join(l.eval.Dir(), "fixtures")
}

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
