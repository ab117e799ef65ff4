package mcpconfig

import (
	"regexp"
	"strings"
)

// maxRequirement is more than any package's name and version take.
const maxRequirement = 300

// How registries write names and versions.
var (
	npmName      = regexp.MustCompile(`^(@[A-Za-z0-9~_][A-Za-z0-9._~-]*/)?[A-Za-z0-9~_][A-Za-z0-9._~-]*$`)
	npmSpec      = regexp.MustCompile(`^[A-Za-z0-9.^~<>=*+_-]+$`)
	npmVersion   = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[A-Za-z0-9.-]+)?(\+[A-Za-z0-9.-]+)?$`)
	pypi         = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(\[[A-Za-z0-9._,-]+\])?((?:(?:===?|~=|!=|<=|>=|<|>)[A-Za-z0-9.*+!_-]+)(?:,(?:===?|~=|!=|<=|>=|<|>)[A-Za-z0-9.*+!_-]+)*)?$`)
	pypiExact    = regexp.MustCompile(`^===?([A-Za-z0-9][A-Za-z0-9.+!_-]*)$`)
	pypiVersion  = regexp.MustCompile(`^[0-9][A-Za-z0-9.+!_-]*$`)
	programName  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	archive      = regexp.MustCompile(`(?i)\.(tgz|tar\.gz|whl|zip)$`)
	intoAnImage  = "is no name in a registry (a URL, a repository or a file); install it into an image, and give the server that image"
	notAPackage  = "is not a package; write its name, and its version behind an @"
	notAPyPIName = "is not a package; write its name, and which version, such as name==1.2.3"
)

// npmRequirement reads NAME[@VERSION], where the version may be a range or a tag.
func npmRequirement(text string) (r Requirement, problem string) {
	at := strings.LastIndexByte(text, '@')
	if at <= 0 {
		at = len(text)
	}
	name, spec := text[:at], strings.TrimPrefix(text[at:], "@")
	switch {
	case len(text) > maxRequirement:
		return r, notAPackage
	case elsewhere(text) || strings.Contains(name, "/") && !strings.HasPrefix(name, "@"):
		return r, intoAnImage
	case !npmName.MatchString(name) || spec == "" && at < len(text) || spec != "" && !npmSpec.MatchString(spec):
		return r, notAPackage
	}
	r = Requirement{Text: text, Name: name, Spec: spec}
	if npmVersion.MatchString(spec) {
		r.Version = spec
	}
	return r, ""
}

// pypiRequirement reads a requirement without blanks and markers (PEP 508).
func pypiRequirement(text string) (r Requirement, problem string) {
	parts := pypi.FindStringSubmatch(text)
	switch {
	case len(text) > maxRequirement:
		return r, notAPyPIName
	case elsewhere(text):
		return r, intoAnImage
	case parts == nil:
		return r, notAPyPIName
	}
	r = Requirement{Text: text, Name: parts[1], Spec: parts[2] + parts[3]}
	if exact := pypiExact.FindStringSubmatch(parts[3]); exact != nil {
		r.Version = exact[1]
	}
	return r, ""
}

// atVersion is NAME@VERSION, which uvx knows beside PEP 508, as a requirement.
func atVersion(text string) string {
	name, version, ok := strings.Cut(text, "@")
	switch {
	case ok && version == "latest":
		return name
	case ok && pypiVersion.MatchString(version):
		return name + "==" + version
	}
	return text
}

// elsewhere reports whether text is not a name but a place: a URL, a git
// repository, a file or a directory.
func elsewhere(text string) bool {
	return strings.Contains(text, ":") || strings.HasPrefix(text, ".") || strings.HasPrefix(text, "/") ||
		strings.HasPrefix(text, "~/") || archive.MatchString(text)
}
