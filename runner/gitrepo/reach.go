package gitrepo

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/waza-isolate/waza/internal/files"
)

// maxPointer is the maximum size of a file that says where the rest of a repository is, in bytes.
const maxPointer = 1 << 20

// Outside returns the first path that git would read outside for the local repository at source, or
// "". Git reads the repository's directory, and the directories that the files .git, commondir and
// objects/info/alternates name. A link below such a directory counts as outside.
func Outside(source string, outside func(path string) bool) string {
	r := reach{outside: outside, seen: map[string]bool{}}
	source = top(source)
	for _, suffix := range []string{"/.git", "", ".git/.git", ".git"} { // as git tries them
		name := source + suffix
		info, err := os.Stat(name)
		if err != nil {
			continue
		}
		r.look(name)
		switch {
		case info.Mode().IsRegular() && info.Size() <= maxPointer: // git rejects larger files
			r.pointer(name)
		case info.IsDir() && (suffix != "" || exists(filepath.Join(name, "HEAD"))):
			r.scan(name)
		}
	}
	return r.found
}

// reach finds the paths that git reads for a repository.
type reach struct {
	outside func(string) bool
	seen    map[string]bool // the directories scanned
	found   string          // the first place outside
}

// look resolves a path, and records it if it is outside. It returns "" if the path does not exist.
func (r *reach) look(name string) (real string) {
	real, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		real = name
	}
	if err != nil || r.outside(real) {
		r.keep(real)
	}
	return real
}

func (r *reach) keep(place string) { r.found = cmp.Or(r.found, place) }

// scan looks at the files below a directory of a repository.
func (r *reach) scan(name string) {
	dir := r.look(name)
	if r.found != "" || dir == "" || r.seen[dir] {
		return
	}
	r.seen[dir] = true
	_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil: // git cannot read it either
		case entry.Type()&fs.ModeSymlink != 0:
			r.keep(r.look(name))
		case entry.Name() == "commondir" && !entry.IsDir():
			r.pointer(name)
		case entry.Name() == "alternates" && !entry.IsDir():
			r.alternates(name)
		}
		if r.found != "" {
			return fs.SkipAll
		}
		return nil
	})
}

// pointer follows a file .git or commondir.
func (r *reach) pointer(name string) {
	to, isGit := strings.CutPrefix(r.read(name), "gitdir: ")
	if isGit || filepath.Base(name) == "commondir" {
		r.follow(filepath.Dir(name), strings.TrimRight(to, "\r\n"))
	}
}

// alternates follows the lines of a file objects/info/alternates. A quoted line counts as outside.
func (r *reach) alternates(name string) {
	for line := range strings.SplitSeq(r.read(name), "\n") {
		if strings.HasPrefix(line, `"`) {
			r.keep(name)
		}
		r.follow(filepath.Dir(filepath.Dir(name)), line)
	}
}

// follow scans the directory that a file in dir names. It resolves the path twice: as the system
// does, and as git does, which drops ".." first.
func (r *reach) follow(dir, to string) {
	if to == "" {
		return
	}
	if !filepath.IsAbs(to) {
		to = r.look(dir) + "/" + to
	}
	r.scan(to)
	r.scan(filepath.Clean(to))
}

// read returns the content of a file. A file that cannot be read counts as outside.
func (r *reach) read(name string) string {
	data, err := files.Read(name, maxPointer)
	if err != nil {
		r.keep(name)
	}
	return string(data)
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
