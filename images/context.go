package images

import (
	"archive/tar"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/mcpconfig"
)

//go:embed npm/*.Dockerfile pypi/*.Dockerfile
var dockerfiles embed.FS

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
	Tar []byte
	// Args are the build's arguments: BASE, and the predefined ones of proxies,
	// which stay out of the image's history.
	Args map[string]string
	// Labels are of the image, beside those of its Dockerfile.
	Labels map[string]string
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
	c, err := newContext(i.Base, i.files(), n)
	c.Labels = i.Labels()
	return c, err
}

func (i Image) files() []file {
	recipe := file{"Dockerfile", dockerfile(i.recipe())}
	switch {
	case i.Agent != nil:
		return append(i.npmFiles(), file{"rebuild", i.rebuild()}, file{"setup", i.Agent.Setup}, recipe)
	case i.Package.Ecosystem == mcpconfig.PyPI:
		return append(i.pypiFiles(), recipe)
	}
	return append(i.npmFiles(), recipe)
}

// ResolveContext returns the build context of an image that resolves the package's versions and
// writes them to [ManifestPath]. Versions that lock has for another platform are kept.
func (i Image) ResolveContext(lock *Lock, n Network) (Context, error) {
	if i.Package.Ecosystem == mcpconfig.PyPI {
		return newContext(i.Base, []file{
			{"Dockerfile", dockerfile("pypi/resolve.Dockerfile")},
			{"requirements.txt", i.wantedPyPI()},
			{"constraints.txt", lock.constraints(i.Package)},
		}, n)
	}
	return newContext(i.Base, []file{
		{"Dockerfile", dockerfile("npm/resolve.Dockerfile")},
		{"package.json", i.wantedNPM()},
	}, n)
}

func dockerfile(name string) string {
	content, _ := dockerfiles.ReadFile(name) // it is embedded
	return string(content)
}

func newContext(base string, files []file, n Network) (Context, error) {
	env, err := n.script()
	if err != nil {
		return Context{}, err
	}
	files = append(slices.Clone(files), file{"network/ca.pem", string(n.CA)}, file{"network/env", env})
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Mode: 0o644, Size: int64(len(f.Content))}))
		_, writeErr := w.Write([]byte(f.Content))
		err = errors.Join(err, writeErr)
	}
	args := maps.Clone(n.Proxy)
	if args == nil {
		args = map[string]string{}
	}
	args["BASE"] = base
	return Context{Tar: buf.Bytes(), Args: args}, errors.Join(err, w.Close())
}

// script returns the settings as commands of a POSIX shell.
func (n Network) script() (string, error) {
	env := maps.Clone(n.Env)
	if env == nil {
		env = map[string]string{}
	}
	if len(n.CA) > 0 {
		env["NODE_EXTRA_CA_CERTS"], env["PIP_CERT"] = "/network/ca.pem", "/network/ca.pem"
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !mcpconfig.IsVariable(name) {
			return "", fmt.Errorf("%q is not a variable's name", name)
		}
		fmt.Fprintf(&b, "export %s='%s'\n", name, strings.ReplaceAll(env[name], "'", `'\''`))
	}
	return b.String(), nil
}

// ReadManifest reads the manifest of an image built from [Image.ResolveContext].
func (i Image) ReadManifest(data []byte, platform string) (Entry, error) {
	if i.Package.Ecosystem == mcpconfig.PyPI {
		return i.readReport(data, platform)
	}
	return i.readPackageLock(data)
}
