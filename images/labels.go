package images

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/mcpconfig"
)

// Labels of images: what is in them, whose they are, and by which Dockerfile and setup
// they are made.
const (
	LabelContent = "waza.content"
	LabelAgent   = "waza.agent"
	LabelRecipe  = "waza.recipe"
	LabelSetup   = "waza.setup"
)

// Labels are those of the image, which must be resolved.
func (i Image) Labels() map[string]string {
	labels := map[string]string{LabelContent: i.String(), LabelRecipe: digestOf(dockerfile(i.recipe()))}
	if i.Agent != nil {
		labels[LabelAgent], labels[LabelSetup] = i.Agent.Name, digestOf(i.Agent.Setup)
	}
	return labels
}

// recipe is the name of the image's Dockerfile.
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

// IsCurrent reports whether this waza may ask for an image with these labels: it would
// make it in the same way, and an agent that comes with it in the same version. Agents
// are the images of those, on any base.
func IsCurrent(labels map[string]string, agents []Image) bool {
	recipes := []string{"npm/agent.Dockerfile", "npm/install.Dockerfile", "pypi/install.Dockerfile"}
	made := slices.ContainsFunc(recipes, func(name string) bool { return digestOf(dockerfile(name)) == labels[LabelRecipe] })
	of := slices.IndexFunc(agents, func(i Image) bool { return i.Agent.Name == labels[LabelAgent] })
	if !made || of < 0 {
		return made
	}
	current := agents[of].Labels()
	return maps.Equal(current, within(labels, current))
}

// within is what of labels has a key of others.
func within(labels, others map[string]string) map[string]string {
	kept := map[string]string{}
	for key := range others {
		kept[key] = labels[key]
	}
	return kept
}
