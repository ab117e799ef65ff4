package images

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/mcpconfig"
)

// SourceRepository is the repository on an engine of images built from source.
const SourceRepository = "waza-source"

// SourceDir is the directory of the source in an image that a recipe builds.
const SourceDir = "/opt/server"

// DefaultGo is the default base image of Go projects.
const DefaultGo = "golang:1.26-bookworm"

// Source is a snapshot of a directory, and describes how to build an image from it.
type Source struct {
	dir    string // absolute
	name   string // name in messages
	main   string // path in dir of the server's project
	build  mcpconfig.Build
	recipe Recipe
	base   string   // base image; empty if there is a Dockerfile
	omit   []string // absolute paths to omit
	output []fs.FileInfo
	only   []string // if not empty, the only files to include
	digest string   // of the files
	marks  []mark   // of the files, in order

	// Packages is the image with the packages that a Node.js project gets from a registry. The project's
	// image is built on it, so that a change of other files does not fetch them again. It is nil if there are
	// no packages, or if some are in the directory.
	Packages *Source
}

// Recipe is a way to build an image from a directory.
type Recipe string

// Recipes: the directory's own Dockerfile, or a built-in one for a language.
const (
	ByDockerfile Recipe = "Dockerfile"
	ByNode       Recipe = "node"
	ByGo         Recipe = "go"
	ByPython     Recipe = "python"

	byPackages Recipe = "node-packages" // the recipe of Source.Packages
)

// files returns the names of the recipe's helper files.
func (r Recipe) files() []string {
	switch r {
	case ByNode:
		return []string{"source/fetch.sh", "source/scripts.sh", "source/local.js", "source/start.js", "npm/rebuild.js"}
	case byPackages:
		return []string{"source/fetch.sh"}
	case ByGo:
		return []string{"source/build.sh"}
	case ByPython:
		return []string{"source/install.sh", "source/start.py"}
	}
	return nil
}

// Main is the build argument that names the server's project if it is a subdirectory, such as a member of a
// workspace. For Go it may also be a package of the module.
const Main = "MAIN"

// FindRecipe returns how to build an image from a directory, as configured by b, and the path of the server's
// project in it. If b.Dockerfile is empty, it is Dockerfile if that exists, and otherwise the recipe for the
// language of the manifest in the directory. It returns an error for a project whose packages would not come
// from where its manifests say. Errors are single sentences.
func FindRecipe(dir string, b mcpconfig.Build) (by Recipe, main string, err error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", fmt.Errorf("directory %s does not exist", dir)
	case err != nil:
		return "", "", fmt.Errorf("directory %s cannot be read: %w", dir, err)
	case !info.IsDir():
		return "", "", fmt.Errorf("%s is not a directory", dir)
	}
	has := func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && !info.IsDir()
	}
	main = "."
	if at := path.Clean(filepath.ToSlash(b.Args[Main])); fs.ValidPath(at) && len(Manifests(os.DirFS(filepath.Join(dir, at)))) > 0 {
		main = at
	}
	if b.Dockerfile != "" && !has(b.Dockerfile) {
		return "", "", fmt.Errorf("%s has no file %s", dir, b.Dockerfile)
	}
	if b.Dockerfile != "" || main == "." && has("Dockerfile") {
		return ByDockerfile, ".", nil
	}
	project := filepath.Join(dir, main)
	switch found := Manifests(os.DirFS(project)); len(found) {
	case 0:
		return "", "", fmt.Errorf("%s has no Dockerfile, and no package.json, go.mod, pyproject.toml or requirements.txt to build it without one; add a Dockerfile", dir)
	case 1:
		if named := b.Args[Main]; named != "" && path.Clean(named) != main && found[0].Recipe != ByGo {
			return "", "", fmt.Errorf("%s names %q, which has no package.json or pyproject.toml in %s; correct its path", Main, named, dir)
		}
		return found[0].Recipe, main, checkOrigin(dir, project, b, found[0].Recipe)
	default:
		return "", "", fmt.Errorf("%s has %s and %s, and no Dockerfile that says which of them is the server; add one", project, found[0].Name, found[1].Name)
	}
}

// checkOrigin returns an error if a project in dir, built by a recipe, would not get its packages from where
// its manifests say.
func checkOrigin(dir, project string, b mcpconfig.Build, by Recipe) error {
	w, err := FindWorkspace(project, by)
	if err != nil {
		return err
	}
	real, err := realPath(dir)
	if err != nil {
		return err
	}
	realProject, err := realPath(project)
	if err != nil {
		return err
	}
	root, err := filepath.Rel(real, w.Root)
	if err != nil {
		return err
	}
	context := filepath.Join(b.Context, root)
	if w.Needs != "" {
		return fmt.Errorf("%s in %s says where the packages of %s come from, which only %s understands; write a Dockerfile in %[2]s that runs it, and build from there, as in build: %[2]s", w.File, context, project, w.Needs)
	}
	if !filepath.IsLocal(root) {
		below, err := filepath.Rel(w.Root, realProject)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s belongs to the workspace of %s in %s, and built alone would get the workspace's other packages from a registry, where strangers may have taken their names; build from there, as in build: {context: %[3]s, args: {%[4]s: ./%[5]s}}", project, w.File, context, Main, filepath.ToSlash(below))
	}
	name, manifest, err := leadsOut(real, realProject, by)
	if err != nil || name == "" {
		return err
	}
	if filepath.IsAbs(name) || strings.HasPrefix(name, "~") {
		return fmt.Errorf("%s of %s names %q, which is not there in a build; name it by a path from the project", manifest, project, name)
	}
	both := realProject
	for !strings.HasPrefix(filepath.Join(realProject, name)+"/", strings.TrimSuffix(both, "/")+"/") {
		both = filepath.Dir(both)
	}
	up, errUp := filepath.Rel(real, both)
	down, errDown := filepath.Rel(both, realProject)
	if err := errors.Join(errUp, errDown); err != nil {
		return err
	}
	return fmt.Errorf("%s of %s names %q, which leads out of what is built; build from the directory that has both, as in build: {context: %s, args: {%s: ./%s}}", manifest, project, name, filepath.ToSlash(filepath.Join(b.Context, up)), Main, filepath.ToSlash(down))
}

// Manifest is a file that identifies the language of a project.
type Manifest struct {
	Name   string
	Recipe Recipe
}

// Manifests returns the manifests in a directory, at most one per recipe.
func Manifests(dir fs.FS) (found []Manifest) {
	for _, m := range []Manifest{{"package.json", ByNode}, {"go.mod", ByGo}, {"pyproject.toml", ByPython}, {"requirements.txt", ByPython}} {
		info, err := fs.Stat(dir, m.Name)
		if err == nil && !info.IsDir() && (len(found) == 0 || found[len(found)-1].Recipe != m.Recipe) {
			found = append(found, m)
		}
	}
	return found
}

// ReadSource reads the directory dir for a build. It omits the files and directories in omit, and files that
// are the same as one in output, whatever their names, since waza writes to these at the same time. Errors
// are single sentences.
func ReadSource(dir string, b mcpconfig.Build, bases Bases, omit []string, output ...fs.FileInfo) (*Source, error) {
	s := &Source{name: dir, build: b, output: output}
	var err error
	if s.dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	for _, file := range omit {
		abs, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		s.omit = append(s.omit, abs)
	}
	if slices.ContainsFunc(strings.Split(filepath.ToSlash(s.dir), "/"), isGit) {
		return nil, fmt.Errorf("%s is in a .git, which never enters a build; build from another directory", dir)
	}
	if s.recipe, s.main, err = FindRecipe(dir, b); err != nil {
		return nil, err
	}
	switch s.recipe {
	case ByDockerfile:
		s.build.Dockerfile = path.Clean(filepath.ToSlash(cmp.Or(b.Dockerfile, "Dockerfile")))
	case ByNode:
		s.base = cmp.Or(bases.NPM, DefaultNPM)
	case ByGo:
		s.base = cmp.Or(bases.Go, DefaultGo)
	case ByPython:
		s.base = cmp.Or(bases.PyPI, DefaultPyPI)
	}
	if b.Target != "" && s.recipe != ByDockerfile {
		return nil, fmt.Errorf("target is a stage of a Dockerfile, and %s has none", dir)
	}
	if s.recipe == ByNode {
		s.Packages = s.packages()
	}
	for _, source := range []*Source{s, s.Packages} {
		if source != nil && err == nil {
			source.digest, source.marks, err = source.pack(tar.NewWriter(io.Discard))
		}
	}
	return s, err
}

// packages returns the image of a Node.js project's packages, or nil.
func (s *Source) packages() *Source {
	data, err := files.Read(filepath.Join(s.dir, "package.json"), maxManifest)
	if err != nil || s.main != "." || hasNPM(data, ".") {
		return nil
	}
	versions := versionsIn(data)
	for _, version := range versions {
		if strings.ContainsAny(version, ":/") && !strings.HasPrefix(version, "npm:") { // such as file:../other
			return nil
		}
	}
	if len(versions) == 0 {
		return nil
	}
	p := *s
	p.recipe, p.only = byPackages, []string{"package.json", "package-lock.json", "npm-shrinkwrap.json", ".npmrc"}
	return &p
}

// String describes the directory, as part of a sentence.
func (s *Source) String() string {
	if s.recipe == byPackages {
		return "the npm packages of the source in " + s.name
	}
	return "the source in " + s.name
}

// How describes how the image is built, as part of a sentence.
func (s *Source) How() string {
	switch {
	case s.recipe != ByDockerfile:
		return fmt.Sprintf("by the recipe for %s, on %s", s.recipe, s.base)
	case s.build.Target != "":
		return fmt.Sprintf("by %s, stage %s", s.build.Dockerfile, s.build.Target)
	}
	return "by " + s.build.Dockerfile
}

// Tag returns the reference of the image. It contains a digest of everything that the image
// is built from, so an existing image with this tag need not be rebuilt.
func (s *Source) Tag() string {
	content, _ := json.Marshal(struct { // plain data always encodes
		Base, Digest string
		Build        mcpconfig.Build
		Files        []file
	}{s.base, s.digest, mcpconfig.Build{Dockerfile: s.build.Dockerfile, Target: s.build.Target, Args: s.build.Args}, s.files()})
	sum := sha256.Sum256(content)
	return SourceRepository + ":" + hex.EncodeToString(sum[:12])
}

// TagOr returns the reference of the image, or other if s is nil.
func (s *Source) TagOr(other string) string {
	if s == nil {
		return other
	}
	return s.Tag()
}

// Labels returns the labels of the image. They do not include a run, since the image belongs to none.
func (s *Source) Labels() map[string]string {
	content := filepath.Join(s.dir, s.build.Dockerfile) + " " + s.build.Target
	if s.recipe == byPackages {
		content += "npm packages"
	}
	return map[string]string{"waza.image": "source", "waza.run": "", LabelContent: strings.TrimSpace(content)}
}

// files returns the files of the recipe.
func (s *Source) files() []file {
	if s.recipe == ByDockerfile {
		return nil
	}
	files := []file{{"Dockerfile", recipeFile("source/" + string(s.recipe) + ".Dockerfile")}, {"args", exports(s.build.Args)}}
	for _, name := range s.recipe.files() {
		files = append(files, file{path.Base(name), recipeFile(name)})
	}
	return files
}

// Context returns the build context of the image. Its Tar returns an error if the directory has changed since
// it was read.
func (s *Source) Context(n Network) (Context, error) {
	files := func(w *tar.Writer) error {
		digest, marks, err := s.pack(w)
		if err == nil && digest != s.digest {
			err = fmt.Errorf("%s in %s has changed since it was read; run again, or name it in .dockerignore if the build does not need it", firstChange(s.marks, marks), s.name)
		}
		return err
	}
	var c Context
	if s.recipe == ByDockerfile {
		c = Context{Dockerfile: s.build.Dockerfile, Target: s.build.Target, Args: map[string]string{}, RunArg: runArg, Tar: func(to io.Writer) error {
			w := tar.NewWriter(to)
			return errors.Join(files(w), w.Close())
		}}
		maps.Copy(c.Args, n.Proxy)
		maps.Copy(c.Args, s.build.Args)
	} else {
		c = newContext(s.base, s.files(), n.of(s.recipe), files)
	}
	if s.recipe == ByNode {
		c.Args["PACKAGES"] = s.base
		if s.Packages != nil {
			c.Args["PACKAGES"] = s.Packages.Tag()
		}
	}
	c.Labels = s.Labels()
	return c, nil
}
