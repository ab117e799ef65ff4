package images

import (
	"archive/tar"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/mcpconfig"
)

//go:embed npm pypi source
var recipes embed.FS

// Network holds the settings of this machine that a build needs to reach a registry. They
// do not affect tags and are not stored in images.
type Network struct {
	// CA holds PEM certificates to trust in addition to, or instead of, the usual ones; may
	// be empty.
	CA []byte
	// Env holds settings of npm and pip, such as NPM_CONFIG_REGISTRY.
	Env map[string]string
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
	// Below returns the image that it is built on and that has to be built first, or nil.
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
	c := newContext(i.Base, i.files(), n, nil)
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
		}, n, nil)
	}
	return newContext(i.Base, []file{
		{"Dockerfile", recipeFile("npm/resolve.Dockerfile")},
		{"args", exports(i.Args)},
		{"package.json", i.wantedNPM()},
	}, n, nil)
}

// recipeFile returns an embedded file.
func recipeFile(name string) string {
	content, _ := recipes.ReadFile(name) // embedded files can be read
	return string(content)
}

// newContext returns a build context on a base image with files, the network's settings,
// and what more writes, if not nil.
func newContext(base string, files []file, n Network, more func(*tar.Writer) error) Context {
	files = append(slices.Clone(files), file{"network/ca.pem", string(n.CA)}, file{"network/env", n.script()})
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
