package images

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/mcpconfig"
)

// maxWorkspace is the maximum size of a manifest that is read for a workspace.
const maxWorkspace = 1 << 20

// Workspace is the directory that a project's packages are installed from: the project's own, or a parent
// directory with a manifest that includes the project. If a package of a workspace were built alone, it would
// get the other packages from a registry, where strangers may have taken their names.
type Workspace struct {
	Root string // path without links
	File string // name of the manifest in Root; empty if there is none
	// Needs names the program that interprets File, if no recipe does; otherwise it is empty.
	Needs string
}

// claim is a kind of manifest that can define a workspace.
type claim struct {
	recipe Recipe
	file   string
	needs  string
	// has reports whether a manifest's workspace includes the directory at a path relative to the manifest,
	// which may be ".". If it cannot tell, it returns true.
	has func(manifest []byte, at string) bool
}

// claims returns all kinds of workspaces. The first one that includes a directory counts.
func claims() []claim {
	return []claim{
		{ByNode, "pnpm-workspace.yaml", "pnpm", hasPNPM},
		{ByNode, "rush.json", "rush", hasRush},
		{ByNode, "lerna.json", "lerna", hasLerna},
		{ByNode, "package.json", "", hasNPM},
		{ByGo, "go.work", "", hasGo},
		{ByPython, "pyproject.toml", "", hasUV},
		{ByPython, "pyproject.toml", "rye or hatch", hasOtherPython},
	}
}

// settings are files that configure where packages come from, which no recipe supports.
var settings = []struct {
	recipe Recipe
	file   string
	says   func(content []byte) bool
	needs  string
}{
	{ByNode, "package.json", func(content []byte) bool { return slices.ContainsFunc(versionsIn(content), otherProtocol.MatchString) }, "pnpm, yarn or bun"},
	{ByNode, ".yarnrc.yml", regexp.MustCompile(`npmScopes|npmRegistryServer`).Match, "yarn"},
	{ByNode, ".yarnrc", regexp.MustCompile(`registry`).Match, "yarn"},
	{ByNode, "bunfig.toml", regexp.MustCompile(`registry|scopes`).Match, "bun"},
	{ByPython, "pyproject.toml", regexp.MustCompile(`(?m)^\s*\[+\s*tool\.(?:(?:poetry|pdm)\.source|rye\.sources|pixi\.pypi)`).Match, "poetry, pdm, rye or pixi"},
}

// otherProtocol matches the beginning of versions that npm does not support.
var otherProtocol = regexp.MustCompile(`^(?:workspace|link|portal|catalog|patch):`)

// versionsIn returns the versions of the packages that a package.json depends on.
func versionsIn(manifest []byte) (all []string) {
	var project struct{ Dependencies, DevDependencies, OptionalDependencies, PeerDependencies map[string]string }
	if json.Unmarshal(manifest, &project) != nil {
		return nil
	}
	for _, versions := range []map[string]string{project.Dependencies, project.DevDependencies, project.OptionalDependencies, project.PeerDependencies} {
		all = slices.AppendSeq(all, maps.Values(versions))
	}
	return all
}

// FindWorkspace returns the nearest workspace that includes a project, or the project's own directory. It
// ignores directories that everyone can write to, and those above them.
func FindWorkspace(dir string, by Recipe) (Workspace, error) {
	dir, err := realPath(dir)
	if err != nil {
		return Workspace{}, err
	}
	w, err := findClaim(dir, by)
	if err != nil || w.Needs != "" {
		return w, err
	}
	for _, s := range settings {
		for _, at := range []string{dir, w.Root} {
			data, err := readManifest(at, s.file)
			if err != nil {
				return w, err
			}
			if s.recipe == by && s.says(data) {
				w.File, w.Needs = cmp.Or(w.File, s.file), s.needs
				return w, nil
			}
		}
	}
	return w, nil
}

func findClaim(dir string, by Recipe) (Workspace, error) {
	for at, below := dir, "."; ; at, below = filepath.Dir(at), path.Join(filepath.Base(at), below) {
		info, err := os.Stat(at)
		if at != dir && (err != nil || info.Mode()&0o002 != 0) {
			return Workspace{Root: dir}, nil
		}
		for _, c := range claims() {
			if c.recipe != by {
				continue
			}
			data, err := readManifest(at, c.file)
			if err != nil {
				return Workspace{}, err
			}
			if data != nil && c.has(data, below) {
				return Workspace{at, c.file, c.needs}, nil
			}
		}
		if at == filepath.Dir(at) {
			return Workspace{Root: dir}, nil
		}
	}
}

// readManifest reads a manifest that may belong to a workspace. It returns nil if there is none.
func readManifest(dir, name string) ([]byte, error) {
	data, err := files.Read(filepath.Join(dir, name), maxWorkspace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s says where packages come from, and cannot be read: %w", filepath.Join(dir, name), files.Cause(err))
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), nil
}

// realPath returns the absolute path of a directory with links resolved.
func realPath(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// hasAny reports whether a path matches patterns of directories. A later pattern with ! excludes paths again,
// unless it is one that matches does not understand.
func hasAny(patterns []string, at string) (in bool) {
	for _, pattern := range patterns {
		pattern, not := strings.CutPrefix(strings.TrimSpace(pattern), "!")
		if matches(pattern, at) && !(not && isOdd(pattern)) {
			in = !not
		}
	}
	return in
}

// isOdd reports whether a pattern has syntax that matches does not understand.
func isOdd(pattern string) bool { return strings.ContainsAny(pattern, "{}()[]\\") }

// matches reports whether a pattern of npm or uv matches a path. It returns true for patterns that it does
// not understand.
func matches(pattern, at string) bool {
	if isOdd(pattern) {
		return true
	}
	var b strings.Builder
	for part := range strings.SplitSeq(path.Clean(filepath.ToSlash(pattern)), "/") {
		if part == "**" {
			b.WriteString(`(?:/[^/]+)*`)
		} else {
			b.WriteString("/" + strings.NewReplacer(`\*`, `[^/]*`, `\?`, `[^/]`).Replace(regexp.QuoteMeta(part)))
		}
	}
	re, err := regexp.Compile("^" + b.String() + "$")
	return err != nil || re.MatchString("/"+at)
}

// hasNPM implements has for a package.json, whose key workspaces holds patterns or an object with patterns.
func hasNPM(manifest []byte, at string) bool {
	var m struct{ Workspaces json.RawMessage }
	if json.Unmarshal(manifest, &m) != nil || len(m.Workspaces) == 0 || string(m.Workspaces) == "null" {
		return false
	}
	if at == "." {
		return true
	}
	var patterns []string
	var nested struct{ Packages []string }
	switch {
	case json.Unmarshal(m.Workspaces, &patterns) == nil:
		return hasAny(patterns, at)
	case json.Unmarshal(m.Workspaces, &nested) == nil:
		return hasAny(nested.Packages, at)
	}
	return true
}

func hasPNPM(manifest []byte, at string) bool {
	var m struct{ Packages []string }
	if err := yaml.Unmarshal(manifest, &m); err != nil {
		return true
	}
	return len(m.Packages) > 0 && (at == "." || hasAny(m.Packages, at))
}

// hasLerna implements has for a lerna.json. One without packages defers to the workspaces of another
// manifest.
func hasLerna(manifest []byte, at string) bool {
	var m struct{ Packages []string }
	if json.Unmarshal(manifest, &m) != nil {
		return true
	}
	return len(m.Packages) > 0 && (at == "." || hasAny(m.Packages, at))
}

// hasRush implements has for a rush.json, which is JSON with comments.
func hasRush(manifest []byte, at string) bool {
	return at == "." || strings.Contains(string(manifest), `"`+at+`"`)
}

// hasGo implements has for a go.work.
func hasGo(manifest []byte, at string) bool {
	block := false
	for line := range strings.Lines(string(manifest)) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == "use":
			words = words[1:]
			if block = len(words) > 0 && words[0] == "("; block {
				words = words[1:]
			}
		case words[0] == ")":
			block = false
			continue
		case !block:
			continue
		}
		for _, word := range words {
			if path.Clean(strings.Trim(word, "\"`()")) == at {
				return true
			}
		}
	}
	return false
}

var (
	uvWorkspace    = regexp.MustCompile(`(?m)^\s*(?:\[\s*tool\s*\.\s*uv\s*\.\s*workspace\b|(?:tool\.)?(?:uv\.)?workspace(?:\s*=\s*\{|\.members\b))`)
	otherWorkspace = regexp.MustCompile(`(?m)^\s*\[+\s*tool\.(?:rye|hatch)\.(?:[^\]\n]*\.)?workspace\b`)
)

// hasUV implements has for a pyproject.toml. uv itself determines, during the build, what its workspace
// includes.
func hasUV(manifest []byte, _ string) bool { return uvWorkspace.Match(manifest) }

func hasOtherPython(manifest []byte, _ string) bool { return otherWorkspace.Match(manifest) }

// paths are patterns for paths of packages in manifests, and for files with more such paths.
var paths = []struct {
	recipe Recipe
	file   string
	in     func(content []byte) []string
}{
	{ByNode, "package.json", func(content []byte) (all []string) {
		for _, version := range versionsIn(content) {
			all = append(all, found(nodePath, []byte(version))...)
		}
		return all
	}},
	{ByGo, "go.mod", func(content []byte) []string { return found(goPath, content) }},
	{ByPython, "pyproject.toml", func(content []byte) []string { return found(pythonPath, content) }},
	{ByPython, "requirements.txt", func(content []byte) []string { return found(pipPath, content) }},
}

var (
	nodePath   = regexp.MustCompile(`^(?:file:(?://)?(.+)|((?:\.|/|~/).*))`)
	goPath     = regexp.MustCompile(`(?m)=>\s*"?((?:\.\.?/|/)[^\s"]*)`)
	pythonPath = regexp.MustCompile(`(?m)(?:(?:^|[{,])\s*path\s*=\s*["']|@\s*file:(?://)?)([^"'\s]+)`)
	pipPath    = regexp.MustCompile(`(?m)^\s*(?:(?:-e|--editable|-r|--requirement|-c|--constraint|-f|--find-links)[\s=]\s*|.*@\s*)?(?:file:(?://)?)?((?:\.|/)[^\s#;\[]*)`)
)

func found(path *regexp.Regexp, in []byte) (all []string) {
	for _, match := range path.FindAllSubmatch(in, -1) {
		all = append(all, string(bytes.Join(match[1:], nil)))
	}
	return all
}

// leadsOut returns a path in the project's manifests that leads out of root, and the manifest. It returns ""
// if there is none.
func leadsOut(root, project string, by Recipe) (name, manifest string, err error) {
	for _, p := range paths {
		if p.recipe != by {
			continue
		}
		data, err := readManifest(project, p.file)
		if err != nil {
			return "", "", err
		}
		for _, name := range p.in(data) {
			if at, err := filepath.Rel(root, filepath.Join(project, name)); filepath.IsAbs(name) || strings.HasPrefix(name, "~") || err != nil || !filepath.IsLocal(at) {
				return name, p.file, nil
			}
		}
	}
	return "", "", nil
}

// maxLocal is the maximum number of files and directories that are searched for a package with a given name.
const maxLocal = 20_000

// LocalPackage returns the manifest of a package below dir, or in the workspace around it, that has the same
// name as a package that p gets from a registry, or a program of that name. The one in the registry may be a
// stranger's. It returns "" if there is none.
func LocalPackage(dir string, p mcpconfig.Package) (string, error) {
	by, file := ByNode, "package.json"
	if p.Ecosystem == mcpconfig.PyPI {
		by, file = ByPython, "pyproject.toml"
	}
	w, err := FindWorkspace(dir, by)
	if err != nil {
		return "", err
	}
	for _, r := range p.Wanted { // npx starts an installed program, whichever package it belongs to
		program := filepath.Join(w.Root, "node_modules", ".bin", r.Name)
		_, errProgram := os.Lstat(program)
		_, errPackage := os.Lstat(filepath.Join(w.Root, "node_modules", r.Name))
		if by == ByNode && errProgram == nil && errPackage != nil {
			return program, nil
		}
	}
	at, left := "", maxLocal
	err = filepath.WalkDir(w.Root, func(name string, entry fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fs.SkipAll
		}
		switch {
		case err != nil && name == w.Root:
			return err
		case err != nil:
			return fs.SkipDir
		case entry.IsDir() && slices.Contains([]string{"node_modules", ".git", ".venv", "venv", ".waza"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || entry.Name() != file:
			return nil
		}
		data, err := files.Read(name, maxWorkspace)
		if err == nil && slices.ContainsFunc(p.Wanted, func(r mcpconfig.Requirement) bool { return isCalled(data, by, r.Name) }) {
			at = name
			return fs.SkipAll
		}
		return nil
	})
	return at, err
}

var pythonName = regexp.MustCompile(`(?m)^\s*name\s*=\s*["']([^"'\n]+)`)

// isCalled reports whether a manifest's package, or one of its programs, has a name.
func isCalled(manifest []byte, by Recipe, name string) bool {
	if by == ByPython {
		return slices.ContainsFunc(found(pythonName, manifest), func(own string) bool { return normal(own) == normal(name) })
	}
	var m struct {
		Name string
		Bin  programs
	}
	return json.Unmarshal(manifest, &m) == nil && (m.Name == name || m.Bin[name] != "")
}
