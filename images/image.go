package images

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/waza-isolate/waza/mcpconfig"
)

// Default base images.
const (
	DefaultNPM = "node:24-bookworm-slim"
	// Tools contains git, python3, curl, jq, make and Node.js; scripts/setup builds it.
	Tools       = "waza-tools:latest"
	DefaultPyPI = "python:3.11-slim-bookworm"
)

// Repositories of images on an engine: those of server packages, and those of agents.
const (
	Repository      = "waza-server"
	AgentRepository = "waza-agent"
)

// Image is the image of one package.
type Image struct {
	Base    string  // base image, which has the ecosystem's tools
	Source  *Source // source from which Base is built; nil if Base exists already
	Package mcpconfig.Package
	Args    map[string]string // environment of npm or pip, and of install scripts
	Entry   *Entry            // entry in the lock; nil until resolved
	Agent   *Agent            // agent that the image belongs to; nil for a server
}

// Agent describes the parts of an agent's image other than packages.
type Agent struct {
	Name  string
	Setup string // POSIX shell commands that run at the end of the build
}

// Bases are the base images for packages. An empty string means the default.
type Bases struct{ NPM, PyPI, Go string }

// New returns the image of a package. The image is resolved if lock has an entry for the platform, such as
// linux/amd64.
func New(p mcpconfig.Package, bases Bases, lock *Lock, platform string) Image {
	i := Image{Package: p, Base: cmp.Or(bases.NPM, DefaultNPM)}
	if p.Ecosystem == mcpconfig.PyPI {
		i.Base = cmp.Or(bases.PyPI, DefaultPyPI)
	}
	i.Entry = lock.find(keyOf(p, platform))
	return i
}

// ForAgent returns the image of an agent's npm packages. There must be at least one.
func ForAgent(a Agent, p mcpconfig.Package, bases Bases, lock *Lock) Image {
	i := New(p, bases, lock, "")
	i.Agent = &a
	return i
}

// String returns the package and, if it is resolved, its version, such as npm:NAME@1.2.3.
func (i Image) String() string {
	if i.Entry == nil {
		return i.Package.String()
	}
	return i.Package.Ecosystem + ":" + i.Package.Wanted[0].Name + "@" + i.Entry.Version
}

// Tag returns the reference of the image, or "" until it is resolved. It contains a digest
// of everything that the image is built from, so an existing image with this tag need not
// be rebuilt.
func (i Image) Tag() string {
	if i.Entry == nil {
		return ""
	}
	h := sha256.New()
	content, _ := json.Marshal(struct { // plain data always encodes
		Base  string
		Files []file
	}{i.Base, i.files()})
	h.Write(content)
	return i.repository() + ":" + hex.EncodeToString(h.Sum(nil)[:12])
}

func (i Image) repository() string {
	if i.Agent != nil {
		return AgentRepository
	}
	return Repository
}

// Program returns the path of the server's program in the image. It returns an error if the package has no
// program, or none with the requested name.
func (i Image) Program() (string, error) {
	if i.Package.Ecosystem == mcpconfig.PyPI {
		return path.Join(InstallDir, "bin", i.Package.Program), nil
	}
	if i.Entry == nil {
		return "", fmt.Errorf("%s is not resolved yet", i)
	}
	name, err := i.npmProgram()
	if err != nil {
		return "", err
	}
	return path.Join(InstallDir, "node_modules", ".bin", name), nil
}

// InstallDir is the directory of a package in its image, as used in the Dockerfiles.
const InstallDir = "/opt/server"

// Labels of images: the package with its version, the agent, and digests of the Dockerfile
// and the setup.
const (
	LabelContent = "waza.content"
	LabelAgent   = "waza.agent"
	LabelRecipe  = "waza.recipe"
	LabelSetup   = "waza.setup"
)

// Labels returns the labels of the image, which must be resolved.
func (i Image) Labels() map[string]string {
	labels := map[string]string{LabelContent: i.String(), LabelRecipe: digestOf(recipeFile(i.recipe()))}
	if i.Agent != nil {
		labels[LabelAgent], labels[LabelSetup] = i.Agent.Name, digestOf(i.Agent.Setup)
	}
	return labels
}

// recipe returns the name of the image's Dockerfile.
func (i Image) recipe() string {
	switch {
	case i.Agent != nil:
		return "npm/agent.Dockerfile"
	case i.Package.Ecosystem == mcpconfig.PyPI:
		return "pypi/install.Dockerfile"
	}
	return "npm/install.Dockerfile"
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:8])
}

// IsCurrent reports whether this version of waza can use an image with these labels: it was
// built with the same Dockerfile and, if it belongs to an agent in agents, the same
// packages and setup.
func IsCurrent(labels map[string]string, agents []Image) bool {
	recipes := []string{"npm/agent.Dockerfile", "npm/install.Dockerfile", "pypi/install.Dockerfile"}
	made := slices.ContainsFunc(recipes, func(name string) bool { return digestOf(recipeFile(name)) == labels[LabelRecipe] })
	of := slices.IndexFunc(agents, func(i Image) bool { return i.Agent.Name == labels[LabelAgent] })
	if !made || of < 0 {
		return made
	}
	current := agents[of].Labels()
	return maps.Equal(current, within(labels, current))
}

// within returns the labels whose keys occur in others.
func within(labels, others map[string]string) map[string]string {
	kept := map[string]string{}
	for key := range others {
		kept[key] = labels[key]
	}
	return kept
}
