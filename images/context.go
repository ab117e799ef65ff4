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

// Network is what a build needs from this machine to reach a registry. It does not become part
// of a tag or of an image.
type Network struct {
	// CA is certificates in PEM to trust beside or in place of the usual ones; may
	// be empty.
	CA []byte
	// Env is settings of npm and pip, such as NPM_CONFIG_REGISTRY.
	Env map[string]string
	// Proxy is settings of proxies, such as HTTPS_PROXY, in both cases.
	Proxy map[string]string
}

// Context is what an engine builds an image from.
type Context struct {
	Tar func(io.Writer) error // writes the files
	// Dockerfile is the path of the Dockerfile among them, and Target the stage to build;
	// empty are Dockerfile and the last.
	Dockerfile, Target string
	// Args are the build's arguments: BASE, and the predefined ones of proxies,
	// which stay out of the image's history. RunArg is the one that takes the run's id.
	Args   map[string]string
	RunArg string
	// Labels are of the image, beside those of its Dockerfile.
	Labels map[string]string
}

// Buildable is an image that can be built: an [Image] or a [Source].
type Buildable interface {
	fmt.Stringer
	Tag() string
	Context(Network) (Context, error)
}

// ManifestPath is the file with the resolved versions in an image built from
// [Image.ResolveContext].
const ManifestPath = "/manifest.json"

// file is one file of a context that decides about the image.
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

// ResolveContext returns the build context of an image that resolves the package's versions and
// writes them to [ManifestPath]. Versions that lock has for another platform are kept.
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

// recipeFile returns a file of ours that a context holds.
func recipeFile(name string) string {
	content, _ := recipes.ReadFile(name) // it is embedded
	return string(content)
}

// newContext returns the context of a build on a base image: files, the network's settings, and
// what more writes, unless it is nil.
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

// script returns the settings as commands of a POSIX shell.
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

// exports returns commands of a POSIX shell that set the variables of env.
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
