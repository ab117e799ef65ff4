package mcpconfig

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Ecosystems of a [Package].
const (
	NPM  = "npm"
	PyPI = "pypi"
)

// Package is a server that is given by a command which fetches it: npx or uvx.
type Package struct {
	Ecosystem string
	// Wanted are the packages to install, starting with that of the server. There is at least one.
	Wanted []Requirement
	// Program is the name of the program to run; empty for the first package's own.
	Program string
	// Args are the program's own arguments, as written: the last arguments of the server.
	Args []string
}

// Requirement is one package of a registry.
type Requirement struct {
	Text string // as written
	Name string // npm: with its scope
	// Spec is the wanted version in the syntax of the registry. For npm it is a version, range or tag; for
	// PyPI it is the rest of the requirement after the name, starting with extras. If empty, it means the
	// latest version.
	Spec string
}

// String names the package by its ecosystem, as written.
func (p Package) String() string {
	texts := make([]string, len(p.Wanted))
	for i, w := range p.Wanted {
		texts[i] = w.Text
	}
	return p.Ecosystem + ":" + strings.Join(texts, " ")
}

// ReadPackage reads a server whose command installs it from a registry: npx, npm exec, uvx or uv tool run. ok
// is false for all other commands. A package that cannot be installed before a run is an error, as [Errors].
//
// s is not expanded: the package must be literal, and only the program's own arguments may contain variables.
func ReadPackage(name string, s Server) (p Package, ok bool, err error) {
	l, at, ok := launcherOf(s)
	if !ok {
		return Package{}, false, nil
	}
	r := &reader{findings: findings{server: name}, launcher: l, args: s.Args, at: at}
	p = r.read()
	if err := r.err(); err != nil {
		return Package{}, true, err
	}
	return p, true, nil
}

// launcher is a command that installs and runs a package.
type launcher struct {
	name        string // name in messages
	ecosystem   string
	silent      []string // options that have no effect here
	packages    []string // options whose value is the package of the program
	extras      []string // options whose value is an additional package
	requirement func(string) (Requirement, string)
	// separates reports that options of the launcher may follow the package, up to "--".
	separates bool
}

// Launchers returns the commands that are more than a program in an image.
func Launchers() []string { return []string{"npx", "npm", "uvx", "uv", "docker", "podman"} }

// launcherOf returns the launcher of s, and the index of the launcher's first option in args.
func launcherOf(s Server) (l launcher, at int, ok bool) {
	if s.URL != "" {
		return l, 0, false
	}
	npx := launcher{
		name: "npx", ecosystem: NPM, requirement: npmRequirement,
		silent: []string{"-y", "--yes", "-q", "--quiet"}, packages: []string{"-p", "--package"},
	}
	uvx := launcher{
		name: "uvx", ecosystem: PyPI, requirement: pypiRequirement,
		silent: []string{"-q", "--quiet"}, packages: []string{"--from"}, extras: []string{"--with"},
	}
	switch first := func(n int) []string { return s.Args[:min(n, len(s.Args))] }; path.Base(s.Command) {
	case "npx":
		return npx, 0, true
	case "npm":
		npx.name, npx.packages, npx.separates = "npm exec", []string{"--package"}, true
		return npx, 1, slices.Equal(first(1), []string{"exec"}) || slices.Equal(first(1), []string{"x"})
	case "uvx":
		return uvx, 0, true
	case "uv":
		uvx.name = "uv tool run"
		return uvx, 2, slices.Equal(first(2), []string{"tool", "run"})
	}
	return l, 0, false
}

// reader reads the arguments of a launcher.
type reader struct {
	findings
	launcher  launcher
	args      []string
	at        int  // index of the next argument
	separated bool // "--" was read
	holders   []Requirement
	extras    []Requirement
}

func (r *reader) read() Package {
	for r.at < len(r.args) && strings.HasPrefix(r.args[r.at], "-") {
		if r.args[r.at] == "--" {
			r.at++
			r.separated = true
			break
		}
		r.option()
	}
	if r.err() != nil {
		return Package{}
	}
	if r.at == len(r.args) {
		r.invalid("args", "args of %s name no package; write one, such as %s", r.launcher.name, example(r.launcher.ecosystem))
		return Package{}
	}
	p := Package{Ecosystem: r.launcher.ecosystem}
	if len(r.holders) > 0 {
		p.Program = r.program()
	} else {
		r.holders = append(r.holders, r.requirement(r.at, r.args[r.at], true))
		if p.Ecosystem == PyPI {
			p.Program = r.holders[0].Name
		}
	}
	p.Wanted = slices.Concat(r.holders, r.extras)
	p.Args = r.rest()
	r.checkRepeats(p.Wanted)
	return p
}

func example(ecosystem string) string {
	if ecosystem == NPM {
		return "@modelcontextprotocol/server-memory@2026.8.31"
	}
	return "mcp-server-time@2026.8.31"
}

// option reads the current option and its value.
func (r *reader) option() {
	at := r.at
	r.at++
	name, value, attached := strings.Cut(r.args[at], "=")
	if slices.Contains(r.launcher.silent, r.args[at]) {
		return
	}
	holder := slices.Contains(r.launcher.packages, name)
	if !holder && !slices.Contains(r.launcher.extras, name) {
		r.wrong(at, "%s option %s is not understood here; understood are %s: leave it out, or install the server into an image", r.launcher.name, optionName(name), r.understood())
		return
	}
	if !attached {
		if r.at == len(r.args) {
			r.wrong(at, "%s option %s needs a package", r.launcher.name, name)
			return
		}
		value, at = r.args[r.at], r.at
		r.at++
	}
	if read := r.requirement(at, value, false); holder {
		if r.launcher.ecosystem == PyPI && len(r.holders) > 0 {
			r.wrong(at, "%s takes one %s; name further packages by --with", r.launcher.name, name)
		}
		r.holders = append(r.holders, read)
	} else {
		r.extras = append(r.extras, read)
	}
}

// optionName returns an option for use in a message. It replaces anything that does not look like an option,
// since it may be secret.
func optionName(s string) string {
	if len(s) > 40 || strings.ContainsFunc(s, func(c rune) bool {
		return c != '-' && c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}) {
		return "of this name"
	}
	return s
}

func (r *reader) understood() string {
	return strings.Join(slices.Concat(r.launcher.silent, r.launcher.packages, r.launcher.extras), ", ")
}

// requirement reads a package. If it is the command, the version may follow an @ in both ecosystems.
func (r *reader) requirement(at int, text string, asCommand bool) Requirement {
	if hasVariable(text) {
		r.wrong(at, "%s must not contain variables, since the lock stores what it resolves to", where("args", strconv.Itoa(at)))
		return Requirement{}
	}
	if asCommand && r.launcher.ecosystem == PyPI {
		text = atVersion(text)
	}
	read, problem := r.launcher.requirement(text)
	if problem != "" {
		r.wrong(at, "%s %s", where("args", strconv.Itoa(at)), problem)
		return Requirement{}
	}
	read.Text = r.asWritten(at, text)
	return read
}

// asWritten returns the package in an argument, without the option that it is attached to.
func (r *reader) asWritten(at int, text string) string {
	if arg := r.args[at]; !strings.HasPrefix(arg, "-") {
		return arg
	}
	return text
}

// program reads the name of a program in a package that was given before.
func (r *reader) program() string {
	if name := r.args[r.at]; programName.MatchString(name) {
		return name
	}
	r.wrong(r.at, "%s is not the name of a program; %s names the package and its version, and this argument only a program of it",
		where("args", strconv.Itoa(r.at)), r.launcher.packages[len(r.launcher.packages)-1])
	return ""
}

// rest returns the program's own arguments, which follow the package.
func (r *reader) rest() []string {
	rest := r.args[r.at+1:]
	if !r.launcher.separates || r.separated {
		return slices.Clone(rest)
	}
	if len(rest) > 0 && rest[0] == "--" {
		return slices.Clone(rest[1:])
	}
	for i, arg := range rest {
		if strings.HasPrefix(arg, "-") {
			r.wrong(r.at+1+i, "npm exec takes options after the package as its own; put -- between the package and the server's arguments")
			return nil
		}
	}
	return slices.Clone(rest)
}

func (r *reader) checkRepeats(wanted []Requirement) {
	seen := map[string]bool{}
	for _, w := range wanted {
		if w.Name != "" && seen[w.Name] {
			r.invalid("args", "args of %s name the package %s twice", r.launcher.name, w.Name)
		}
		seen[w.Name] = true
	}
}

func (r *reader) wrong(at int, format string, args ...any) {
	r.add("args", strconv.Itoa(at), format, args...)
}

// NPMPackages returns npm packages that are installed together. Each text is NAME or NAME@VERSION. Its error
// is one sentence.
func NPMPackages(texts []string) (Package, error) {
	p := Package{Ecosystem: NPM}
	for _, text := range texts {
		read, problem := npmRequirement(text)
		if problem != "" {
			return Package{}, fmt.Errorf("%q %s", text, problem)
		}
		p.Wanted = append(p.Wanted, read)
	}
	return p, nil
}

// Syntax of names and versions in registries.
var (
	npmName      = regexp.MustCompile(`^(@[A-Za-z0-9~_][A-Za-z0-9._~-]*/)?[A-Za-z0-9~_][A-Za-z0-9._~-]*$`)
	npmSpec      = regexp.MustCompile(`^[A-Za-z0-9.^~<>=*+_-]+$`)
	pypi         = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(\[[A-Za-z0-9._,-]+\])?((?:(?:===?|~=|!=|<=|>=|<|>)[A-Za-z0-9.*+!_-]+)(?:,(?:===?|~=|!=|<=|>=|<|>)[A-Za-z0-9.*+!_-]+)*)?$`)
	pypiVersion  = regexp.MustCompile(`^[0-9][A-Za-z0-9.+!_-]*$`)
	programName  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	archive      = regexp.MustCompile(`(?i)\.(tgz|tar\.gz|whl|zip)$`)
	intoAnImage  = "is not a name in a registry (a URL, a repository or a file); install it into an image, and give the server that image"
	notAPackage  = "is not a package; write its name, then @ and its version"
	notAPyPIName = "is not a package; write its name, and which version, such as name==1.2.3"
)

// npmRequirement parses NAME[@VERSION], where VERSION may be a range or a tag.
func npmRequirement(text string) (r Requirement, problem string) {
	at := strings.LastIndexByte(text, '@')
	if at <= 0 {
		at = len(text)
	}
	name, spec := text[:at], strings.TrimPrefix(text[at:], "@")
	switch {
	case elsewhere(text) || strings.Contains(name, "/") && !strings.HasPrefix(name, "@"):
		return r, intoAnImage
	case !npmName.MatchString(name) || spec == "" && at < len(text) || spec != "" && !npmSpec.MatchString(spec):
		return r, notAPackage
	}
	return Requirement{Text: text, Name: name, Spec: spec}, ""
}

// pypiRequirement parses a requirement (PEP 508) without blanks and markers.
func pypiRequirement(text string) (r Requirement, problem string) {
	parts := pypi.FindStringSubmatch(text)
	switch {
	case elsewhere(text):
		return r, intoAnImage
	case parts == nil:
		return r, notAPyPIName
	}
	return Requirement{Text: text, Name: parts[1], Spec: parts[2] + parts[3]}, ""
}

// atVersion converts NAME@VERSION, which uvx supports in addition to PEP 508, to a
// requirement.
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

// elsewhere reports whether text is a place rather than a name: a URL, a git repository, a file or a
// directory.
func elsewhere(text string) bool {
	return strings.Contains(text, ":") || strings.HasPrefix(text, ".") || strings.HasPrefix(text, "/") ||
		strings.HasPrefix(text, "~/") || archive.MatchString(text)
}
