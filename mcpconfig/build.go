package mcpconfig

import "errors"

// Build describes how to build an image from source. Its keys are those of
// Docker Compose.
type Build struct {
	Context    string            `json:"context,omitempty" jsonschema:"directory of the source; default that of the eval, and for npx and uvx none"`
	Dockerfile string            `json:"dockerfile,omitempty" jsonschema:"path of the Dockerfile in context; default Dockerfile, or else a recipe for Node.js, Go or Python"`
	Target     string            `json:"target,omitempty" jsonschema:"stage of the Dockerfile to build; default the last"`
	Args       map[string]string `json:"args,omitempty" jsonschema:"variables of the build: build arguments of the Dockerfile, or the environment of npm, pip, Go and install scripts; without ${VAR}, since an image keeps them"`
}

// SetShort reads a build that is only a directory.
func (b *Build) SetShort(context string) error {
	if context == "" {
		return errors.New("it must not be empty")
	}
	b.Context = context
	return nil
}

// Validate returns the errors in b, whose variables are not expanded. image is the image given next to the
// build, if any.
func (b *Build) Validate(image string) error {
	if b == nil {
		return nil
	}
	f := &findings{}
	f.build("", image, b)
	f.stays("build.context", "", b.Context)
	var errs []error
	for _, one := range f.all {
		errs = append(errs, errors.New(one.Message))
	}
	return errors.Join(errs...)
}

// HasSource reports whether the image is built from a directory. For npx and uvx, a build with only args
// configures the installation of the package.
func (s Server) HasSource() bool {
	if s.Build == nil {
		return false
	}
	_, _, fetched := launcherOf(s)
	return !fetched || s.Build.Context != "" || s.Build.Dockerfile != "" || s.Build.Target != ""
}
