package images

import (
	"archive/tar"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/mcpconfig"
)

//go:embed npm pypi source
var recipes embed.FS

// Network holds the settings of this machine that a build needs to reach a registry. They
// do not affect tags and are not stored in images.
type Network struct {
	// CA holds PEM certificates to trust in addition to, or instead of, the usual ones; it may be empty.
	CA []byte
	// Env holds settings of npm and pip, such as NPM_CONFIG_REGISTRY.
	Env map[string]string
	// NPMRC holds npm's settings of registries for scopes, as in an .npmrc.
	NPMRC string
	// Proxy holds proxy settings, such as HTTPS_PROXY, in upper and lower case.
	Proxy map[string]string
}

// Context is a build context for an engine.
type Context struct {
	Tar func(io.Writer) error // writes the files
	// Dockerfile is the path of the Dockerfile within the context; default Dockerfile.
	// Target is the stage to build; default the last.
	Dockerfile, Target string
	// Args are the build arguments: BASE, and the predefined proxy arguments, which are not
	// stored in the image's history. RunArg is the name of the argument for the run id.
	Args   map[string]string
	RunArg string
	// Labels are the labels of the image in addition to those in its Dockerfile.
	Labels map[string]string
}

// Buildable is an image that can be built: an [Image] or a [Source].
type Buildable interface {
	fmt.Stringer
	Tag() string
	Context(Network) (Context, error)
	// Registry names the registries that a build gets packages from, for people. It returns "" if the image's
	// Dockerfile determines them.
	Registry(Network) string
	// Below returns the image that it is built on and that must be built first, or nil.
	Below() Buildable
}

// Below implements [Buildable].
func (i Image) Below() Buildable {
	if i.Source == nil {
		return nil
	}
	return i.Source
}

// Below implements [Buildable].
func (s *Source) Below() Buildable {
	if s.Packages == nil {
		return nil
	}
	return s.Packages
}

// Registry implements [Buildable].
func (i Image) Registry(n Network) string {
	return n.registry(i.by())
}

// by returns the recipe whose network settings a build of the image gets.
func (i Image) by() Recipe {
	if i.Package.Ecosystem == mcpconfig.PyPI {
		return ByPython
	}
	return ByNode
}

// Registry implements [Buildable].
func (s *Source) Registry(n Network) string {
	where := n.registry(s.recipe)
	for _, named := range []struct {
		recipe Recipe
		file   string
		says   *regexp.Regexp
	}{
		{ByNode, ".npmrc", regexp.MustCompile(`registry`)}, {ByPython, "requirements.txt", regexp.MustCompile(`index-url|find-links`)},
		{ByPython, "pyproject.toml", regexp.MustCompile(`tool\.uv\.(?:index|sources)`)}, {ByPython, "uv.toml", regexp.MustCompile(`index`)},
	} {
		if named.recipe != s.recipe && (named.recipe != ByNode || s.recipe != byPackages) {
			continue
		}
		for _, dir := range slices.Compact([]string{s.dir, filepath.Join(s.dir, s.main)}) {
			data, err := files.Read(filepath.Join(dir, named.file), maxWorkspace)
			if err == nil && named.says.Match(data) {
				where += " and where " + named.file + " says"
				break
			}
		}
	}
	return where
}

// registry returns the hosts of the registries that a recipe uses.
func (n Network) registry(by Recipe) string {
	variable, usual, separators := "", "", " \t"
	switch by {
	case ByNode, byPackages:
		variable, usual = "NPM_CONFIG_REGISTRY", "npm's own registry"
	case ByGo:
		variable, usual = "GOPROXY", "Go's own module proxy"
		separators = ",|"
	case ByPython:
		variable, usual = "PIP_INDEX_URL", "PyPI"
	default:
		return ""
	}
	where := cmp.Or(hosts(n.Env[variable], separators), usual)
	if extra := n.Env["PIP_EXTRA_INDEX_URL"]; by == ByPython && extra != "" {
		where += " and " + hosts(extra, separators)
	}
	return where
}

// hosts reduces each URL in a list of URLs and words such as direct to its host, since a name, a password or
// a path may be a login.
func hosts(list, separators string) string {
	var all []string
	for _, address := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		switch u, err := url.Parse(address); {
		case err == nil && u.Scheme != "" && u.Opaque == "":
			address = u.Scheme + "://" + u.Host + "/"
		case address != "direct" && address != "off":
			address = "an address that is not a URL"
		}
		all = append(all, address)
	}
	return strings.Join(all, " and ")
}

// of returns the settings that a recipe's program understands, and omits the others.
func (n Network) of(by Recipe) Network {
	own := map[Recipe]*regexp.Regexp{ByNode: regexp.MustCompile(`^NPM_`), ByPython: regexp.MustCompile(`^PIP_`), ByGo: regexp.MustCompile(`^GO`)}
	if by == byPackages {
		by = ByNode
	}
	n.Env = maps.Clone(n.Env)
	maps.DeleteFunc(n.Env, func(name, _ string) bool { return own[by] == nil || !own[by].MatchString(name) })
	if by != ByNode {
		n.NPMRC = ""
	}
	return n
}

// ManifestPath is the file with the resolved versions in an image built from
// [Image.ResolveContext].
const ManifestPath = "/manifest.json"

// file is a file of a build context that contributes to the image's tag.
type file struct{ Name, Content string }

// Context returns the build context of the image, which must be resolved.
func (i Image) Context(n Network) (Context, error) {
	if i.Entry == nil {
		return Context{}, fmt.Errorf("%s is not resolved yet", i)
	}
	c := newContext(i.Base, i.files(), n.of(i.by()), nil)
	c.Labels = i.Labels()
	return c, nil
}

func (i Image) files() []file {
	recipe := file{"Dockerfile", recipeFile(i.recipe())}
	args := file{"args", exports(i.Args)}
	switch {
	case i.Agent != nil:
		return append(i.npmFiles(), file{"rebuild", i.rebuild()}, file{"setup", i.Agent.Setup}, recipe)
	case i.Package.Ecosystem == mcpconfig.PyPI:
		return append(i.pypiFiles(), args, recipe)
	}
	return append(i.npmFiles(), args, file{"rebuild.js", recipeFile("npm/rebuild.js")}, recipe)
}

// ResolveContext returns the build context of an image that resolves the package's versions
// and writes them to [ManifestPath]. It keeps versions that lock has for another platform.
func (i Image) ResolveContext(lock *Lock, n Network) Context {
	if i.Package.Ecosystem == mcpconfig.PyPI {
		return newContext(i.Base, []file{
			{"Dockerfile", recipeFile("pypi/resolve.Dockerfile")},
			{"args", exports(i.Args)},
			{"requirements.txt", i.wantedPyPI()},
			{"constraints.txt", lock.constraints(i.Package)},
		}, n.of(ByPython), nil)
	}
	return newContext(i.Base, []file{
		{"Dockerfile", recipeFile("npm/resolve.Dockerfile")},
		{"args", exports(i.Args)},
		{"package.json", i.wantedNPM()},
	}, n.of(ByNode), nil)
}

// recipeFile returns an embedded file.
func recipeFile(name string) string {
	content, _ := recipes.ReadFile(name) // cannot fail: the file is embedded
	return string(content)
}

// newContext returns a build context on a base image, with files, the network's settings and, if more is not
// nil, what more writes.
func newContext(base string, files []file, n Network, more func(*tar.Writer) error) Context {
	files = append(slices.Clone(files), file{"network/ca.pem", string(n.CA)}, file{"network/env", n.script()})
	if n.NPMRC != "" {
		files = append(files, file{"network/npmrc", n.NPMRC})
	}
	args := maps.Clone(n.Proxy)
	if args == nil {
		args = map[string]string{}
	}
	args["BASE"] = base
	return Context{Args: args, RunArg: "RUN", Tar: func(to io.Writer) (err error) {
		w := tar.NewWriter(to)
		for _, f := range files {
			err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Mode: 0o644, Size: int64(len(f.Content))}))
			_, writeErr := w.Write([]byte(f.Content))
			err = errors.Join(err, writeErr)
		}
		if err == nil && more != nil {
			err = more(w)
		}
		return errors.Join(err, w.Close())
	}}
}

// script returns the settings as POSIX shell commands.
func (n Network) script() string {
	env := maps.Clone(n.Env)
	if env == nil {
		env = map[string]string{}
	}
	if len(n.CA) > 0 {
		for _, name := range []string{"NODE_EXTRA_CA_CERTS", "PIP_CERT", "SSL_CERT_FILE"} {
			env[name] = "/network/ca.pem"
		}
	}
	if n.NPMRC != "" {
		env["NPM_CONFIG_USERCONFIG"] = "/network/npmrc"
	}
	return exports(env)
}

// exports returns POSIX shell commands that export the variables of env.
func exports(env map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if mcpconfig.IsVariable(name) {
			fmt.Fprintf(&b, "export %s='%s'\n", name, strings.ReplaceAll(env[name], "'", `'\''`))
		}
	}
	return b.String()
}

// ReadManifest reads the manifest of an image built from [Image.ResolveContext].
func (i Image) ReadManifest(data []byte, platform string) (Entry, error) {
	if i.Package.Ecosystem == mcpconfig.PyPI {
		return i.readReport(data, platform)
	}
	return i.readPackageLock(data)
}
