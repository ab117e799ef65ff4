package images

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/waza-isolate/waza/internal/files"
)

// Limits on a source directory.
const (
	maxSourceBytes = 1 << 30
	maxSourceFiles = 100_000
	maxDockerfile  = 1 << 20
	maxManifest    = 16 << 20
)

// ignored returns what to omit from the context: files that may contain secrets, files
// written by waza, files that a recipe creates itself, and the patterns in .dockerignore,
// which can also include files again.
func (s *Source) ignored(root *os.Root) (*patternmatcher.PatternMatcher, error) {
	patterns := []string{"**/.env", "**/.env.*", "**/.mcp.json", "**/mcp.json", "**/.vscode", "**/.cursor", "**/.waza", "**/" + LockName}
	patterns = append(patterns, "**/.netrc", "**/.pypirc", "**/.git-credentials", "**/.aws", "**/.docker", "**/.ssh")
	if s.recipe != ByDockerfile {
		patterns = append(patterns, "**/node_modules", "**/.venv", "**/venv", "**/__pycache__")
	}
	for _, name := range []string{s.build.Dockerfile + ".dockerignore", ".dockerignore"} {
		file, err := files.OpenAt(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var own []string
		if err == nil {
			own, err = ignorefile.ReadAll(file)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", filepath.Join(s.name, name), files.Cause(err))
		}
		patterns = append(patterns, own...)
		break
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, fmt.Errorf("%s has an invalid pattern: %w", filepath.Join(s.name, ".dockerignore"), err)
	}
	return matcher, nil
}

// mark is an entry of a packed directory, with the digest of all entries up to it.
type mark struct{ name, digest string }

// firstChange returns the first name in which two packings of a directory differ.
func firstChange(before, after []mark) string {
	for i, m := range after {
		if i == len(before) || m != before[i] {
			isNamed := func(other mark) bool { return other.name == m.name }
			if i < len(before) && before[i].name != m.name && slices.ContainsFunc(before, isNamed) {
				return before[i].name // the file is missing in after
			}
			return m.name
		}
	}
	return before[len(after)].name
}

// pack writes the directory's files to a tar and returns their digest. It follows no links.
func (s *Source) pack(w *tar.Writer) (digest string, marks []mark, err error) {
	root, err := files.Root(s.dir)
	if err != nil {
		return "", nil, fmt.Errorf("directory %s cannot be read: %w", s.name, err)
	}
	defer func() { _ = root.Close() }()
	ignored, err := s.ignored(root)
	if err != nil {
		return "", nil, err
	}
	p := &sourcePacker{source: s, root: root, out: w, digest: sha256.New()}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." || len(s.only) > 0 && !slices.Contains(s.only, name) {
			return err
		}
		if isGit(name) { // git's configuration may contain a token; no .dockerignore can include it
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		omitted := slices.Contains(s.omit, filepath.Join(s.dir, name)) || s.isOutput(entry)
		switch {
		case entry.IsDir() && (omitted || isRun(root, name)):
			return fs.SkipDir
		case entry.IsDir() && s.leadsToOmitted(name):
			return nil // it is added with its contents, if there are any
		}
		out, err := ignored.MatchesOrParentMatches(name)
		if out = out || omitted; err != nil || !out || s.needs(name) {
			return errors.Join(err, p.entry(name, entry))
		}
		if entry.IsDir() && !takesBack(ignored, name) {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return "", nil, fmt.Errorf("cannot build from %s: %w", s.name, err)
	}
	return hex.EncodeToString(p.digest.Sum(nil)), p.marks, nil
}

// isGit reports whether a path is that of git's own files, even on a file system that ignores case.
func isGit(name string) bool { return strings.EqualFold(path.Base(name), ".git") }

// isOutput reports whether an entry is a file that receives waza's own output.
func (s *Source) isOutput(entry fs.DirEntry) bool {
	if len(s.output) == 0 {
		return false
	}
	info, err := entry.Info()
	return err == nil && slices.ContainsFunc(s.output, func(out fs.FileInfo) bool { return os.SameFile(out, info) })
}

// isRun reports whether a directory is a run directory, judging by its contents. A directory without the
// report that every run writes belongs to the build, for example as data of a server.
func isRun(root *os.Root, dir string) bool {
	for _, name := range []string{"run.json", "report.html"} {
		if file, err := root.Lstat(path.Join(dir, name)); err != nil || !file.Mode().IsRegular() {
			return false
		}
	}
	trials, err := root.Lstat(path.Join(dir, "trials"))
	return err == nil && trials.IsDir()
}

// leadsToOmitted reports whether a directory contains something omitted. That may be its only purpose, as for
// a directory of runs.
func (s *Source) leadsToOmitted(name string) bool {
	return slices.ContainsFunc(s.omit, func(omit string) bool {
		return strings.HasPrefix(omit, filepath.Join(s.dir, name)+string(filepath.Separator))
	})
}

// needs reports whether the builder needs a file, or the directory that contains the file, even if it is
// ignored. The builder does not copy it into the image.
func (s *Source) needs(name string) bool {
	return s.recipe == ByDockerfile && (name == ".dockerignore" || strings.HasPrefix(s.build.Dockerfile+"/", name+"/"))
}

// takesBack reports whether a pattern may include something in an ignored directory again.
func takesBack(ignored *patternmatcher.PatternMatcher, dir string) bool {
	return slices.ContainsFunc(ignored.Patterns(), func(p *patternmatcher.Pattern) bool {
		return p.Exclusion() && (strings.HasPrefix(p.String()+"/", dir+"/") || strings.HasPrefix(p.String(), "**"))
	})
}

// sourcePacker writes the files of a source to a tar.
type sourcePacker struct {
	source *Source
	root   *os.Root
	out    *tar.Writer
	digest hash.Hash
	marks  []mark
	above  []string // nested directories that are added when something in them is
	files  int
	bytes  int64
}

func (p *sourcePacker) entry(name string, entry fs.DirEntry) error {
	if p.files++; p.files > maxSourceFiles {
		return fmt.Errorf("it has more than %d files; name those that the build does not need in .dockerignore", maxSourceFiles)
	}
	p.above = slices.DeleteFunc(p.above, func(dir string) bool { return !strings.HasPrefix(name, dir+"/") })
	if entry.IsDir() {
		if has, err := fs.ReadDir(p.root.FS(), name); err != nil || len(has) > 0 {
			p.above = append(p.above, name)
			return err
		}
	}
	for _, dir := range p.above {
		if err := p.dir(dir); err != nil {
			return err
		}
	}
	p.above = nil
	switch entry.Type() {
	case fs.ModeDir:
		return p.dir(name)
	case fs.ModeSymlink:
		return p.link(name)
	case 0:
		return p.file(name)
	}
	return fmt.Errorf("%s %w; remove it, or name it in .dockerignore", name, files.ErrNotRegular)
}

func (p *sourcePacker) dir(name string) error {
	return p.add(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}, nil)
}

// link adds a symbolic link. It rejects a link that leads out of the directory, since it would be broken in a
// build.
func (p *sourcePacker) link(name string) error {
	target, err := p.root.Readlink(name)
	if err != nil {
		return err
	}
	if path.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		return fmt.Errorf("the link %s leads out of it, to %s; replace it with its target, or name it in .dockerignore", name, target)
	}
	return p.add(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

func (p *sourcePacker) file(name string) error {
	file, err := files.OpenAt(p.root, name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	h := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: info.Size()}
	if info.Mode()&0o111 != 0 {
		h.Mode = 0o755
	}
	if p.bytes += h.Size; p.bytes > maxSourceBytes {
		return fmt.Errorf("it is larger than %d MiB; name what the build does not need in .dockerignore", maxSourceBytes>>20)
	}
	if p.source.recipe != ByDockerfile || name != p.source.build.Dockerfile {
		return p.add(h, file)
	}
	data, err := files.ReadFrom(file, maxDockerfile)
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	staged := labelStages(string(data))
	h.Size = int64(len(staged))
	return p.add(h, strings.NewReader(staged))
}

// add writes an entry to the tar, and adds it and its content to the digest.
func (p *sourcePacker) add(h tar.Header, content io.Reader) error {
	defer func(name string) { p.marks = append(p.marks, mark{name, string(p.digest.Sum(nil))}) }(h.Name)
	about, _ := json.Marshal([]any{h.Name, h.Mode, h.Linkname, h.Size}) // plain data always encodes
	p.digest.Write(about)
	if p.source.recipe != ByDockerfile {
		h.Name = "source/" + h.Name
	}
	if err := p.out.WriteHeader(&h); err != nil || content == nil {
		return err
	}
	_, err := io.CopyN(io.MultiWriter(p.out, p.digest), content, h.Size)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the file %s shrank while it was read; run again, or name it in .dockerignore if the build does not need it", h.Name)
	}
	return err
}

// runArg is the build argument for the run ID in builds with the directory's own Dockerfile.
const runArg = "WAZA_RUN"

var escapeDirective = regexp.MustCompile("(?i)^#[ \t]*escape[ \t]*=[ \t]*`")

// labelStages returns a Dockerfile in which every stage has the run's label, so that the
// remains of a build can be found and removed.
func labelStages(dockerfile string) string {
	var b strings.Builder
	escape := "\\"
	first, goesOn := "", false
	for line := range strings.Lines(dockerfile) {
		if !strings.HasSuffix(line, "\n") {
			line += "\n"
		}
		b.WriteString(line)
		text := strings.TrimSpace(line)
		if escapeDirective.MatchString(text) && first == "" {
			escape = "`"
		}
		if text == "" || text[0] == '#' { // comments and empty lines may also occur within an instruction
			continue
		}
		if !goesOn {
			first = strings.ToUpper(strings.Fields(text)[0])
		}
		if goesOn = strings.HasSuffix(text, escape); !goesOn && first == "FROM" {
			b.WriteString("ARG " + runArg + "\nLABEL waza.run=${" + runArg + "}\n")
		}
	}
	return b.String()
}
