package images

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/mcpconfig"
)

// NPMPackage is a package in a package-lock.json, with the fields that npm ci needs. The
// registry is omitted, so that the lock works with any registry.
// (https://docs.npmjs.com/cli/configuring-npm/package-lock-json)
type NPMPackage struct {
	Name                 string                     `json:"name,omitempty"` // set if it differs from the path
	Version              string                     `json:"version"`
	Integrity            string                     `json:"integrity,omitempty"` // missing for a package bundled in another package's archive
	Bin                  map[string]string          `json:"bin,omitempty"`
	Dependencies         map[string]string          `json:"dependencies,omitempty"`
	OptionalDependencies map[string]string          `json:"optionalDependencies,omitempty"`
	PeerDependencies     map[string]string          `json:"peerDependencies,omitempty"`
	PeerDependenciesMeta map[string]map[string]bool `json:"peerDependenciesMeta,omitempty"`
	BundleDependencies   []string                   `json:"bundleDependencies,omitempty"`
	OS                   []string                   `json:"os,omitempty"`
	CPU                  []string                   `json:"cpu,omitempty"`
	Libc                 []string                   `json:"libc,omitempty"`
	InBundle             bool                       `json:"inBundle,omitempty"`
	Optional             bool                       `json:"optional,omitempty"`
	Peer                 bool                       `json:"peer,omitempty"`
	DevOptional          bool                       `json:"devOptional,omitempty"`
	HasInstallScript     bool                       `json:"hasInstallScript,omitempty"`
}

// wantedNPM returns a package.json for the requested packages.
func (i Image) wantedNPM() string {
	wanted := map[string]string{}
	for _, w := range i.Package.Wanted {
		wanted[w.Name] = w.Spec
		if w.Spec == "" {
			wanted[w.Name] = "latest"
		}
	}
	return text(map[string]any{"private": true, "dependencies": wanted})
}

// npmFiles returns a package.json with the exact versions in the lock, and the
// package-lock.json.
func (i Image) npmFiles() []file {
	exact := map[string]string{}
	for _, w := range i.Package.Wanted {
		exact[w.Name] = i.Entry.NPM[modulePath(w.Name)].Version
	}
	packages := map[string]any{"": map[string]any{"dependencies": exact}}
	for name, p := range i.Entry.NPM {
		packages[name] = p
	}
	return []file{
		{"package.json", text(map[string]any{"private": true, "dependencies": exact})},
		{"package-lock.json", text(map[string]any{"lockfileVersion": 3, "requires": true, "packages": packages})},
	}
}

// rebuild returns a script that runs install scripts like npm install does: an optional
// package that cannot be installed is removed.
func (i Image) rebuild() string {
	var b strings.Builder
	for _, at := range slices.Sorted(maps.Keys(i.Entry.NPM)) {
		p := i.Entry.NPM[at]
		if !p.HasInstallScript {
			continue
		}
		fmt.Fprintf(&b, "npm rebuild --no-update-notifier --loglevel=error -- %s", moduleName(at))
		if p.Optional {
			fmt.Fprintf(&b, " || rm -rf %s", at)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// moduleName returns the name of the package at a path such as node_modules/a/node_modules/b.
func moduleName(at string) string {
	return at[strings.LastIndex(at, "node_modules/")+len("node_modules/"):]
}

func modulePath(name string) string { return "node_modules/" + name }

// npmProgram returns the name of the program that npx would run: the requested one, or else the package's
// only one, or else the one with the name of the package.
func (i Image) npmProgram() (string, error) {
	var all []string
	for _, w := range i.Package.Wanted {
		all = append(all, slices.Sorted(maps.Keys(i.Entry.NPM[modulePath(w.Name)].Bin))...)
	}
	name := i.Package.Program
	if name == "" {
		name = path.Base(i.Package.Wanted[0].Name)
		bin := i.Entry.NPM[modulePath(i.Package.Wanted[0].Name)].Bin
		if targets := slices.Sorted(maps.Values(bin)); bin[name] == "" && len(slices.Compact(targets)) == 1 {
			name = slices.Sorted(maps.Keys(bin))[0]
		}
	}
	switch {
	case slices.Contains(all, name):
		return name, nil
	case len(all) == 0:
		return "", fmt.Errorf("%s has no program to run, so it cannot be a server", i)
	}
	return "", fmt.Errorf("%s has no program %s; it has %s: name one, as in args: [-p, %s, %s]", i, name, strings.Join(all, ", "), i.Package.Wanted[0].Text, all[0])
}

// readPackageLock parses the package-lock.json written by npm. Packages that do not come
// from a registry cannot be locked.
func (i Image) readPackageLock(data []byte) (Entry, error) {
	var lock struct {
		Packages map[string]struct {
			NPMPackage
			Bin                  programs                  `json:"bin"`
			PeerDependenciesMeta map[string]map[string]any `json:"peerDependenciesMeta"`
			BundleDependencies   words                     `json:"bundleDependencies"`
			OS                   words                     `json:"os"`
			CPU                  words                     `json:"cpu"`
			Libc                 words                     `json:"libc"`
			Link                 bool                      `json:"link"`
		}
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return Entry{}, fmt.Errorf("npm's lock of %s cannot be read: %w", i, err)
	}
	e := Entry{key: keyOf(i.Package, ""), NPM: map[string]NPMPackage{}}
	for at, p := range lock.Packages {
		if at == "" {
			continue
		}
		if p.Link || p.Integrity == "" && !p.InBundle {
			return Entry{}, fmt.Errorf("%s needs %s, which comes from no registry and cannot be locked; install the server into an image", i, strings.TrimPrefix(at, "node_modules/"))
		}
		kept := p.NPMPackage
		kept.Bin, kept.PeerDependenciesMeta, kept.BundleDependencies = p.Bin.named(at), optionalPeers(p.PeerDependenciesMeta), p.BundleDependencies
		kept.OS, kept.CPU, kept.Libc = p.OS, p.CPU, p.Libc
		e.NPM[at] = kept
	}
	e.Version = e.NPM[modulePath(i.Package.Wanted[0].Name)].Version
	e.dropUnlocked()
	return e, e.check()
}

// dropUnlocked removes optional dependencies that npm did not find, since npm ci rejects a
// lock that refers to missing packages.
func (e Entry) dropUnlocked() {
	there := map[string]bool{}
	for at := range e.NPM {
		there[moduleName(at)] = true
	}
	for _, p := range e.NPM {
		maps.DeleteFunc(p.OptionalDependencies, func(name, _ string) bool { return !there[name] })
	}
}

// words is a list of strings. npm also allows a single string and, for some lists, a
// boolean, which is ignored.
type words []string

func (w *words) UnmarshalJSON(data []byte) error {
	var one string
	var all []string
	switch {
	case json.Unmarshal(data, &one) == nil:
		*w = words{one}
	case json.Unmarshal(data, &all) == nil:
		*w = all
	}
	return nil
}

// programs maps a package's program names to paths. npm also allows the path of a single
// program, which then has the name of the package.
type programs map[string]string

func (p *programs) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*p = programs{"": one}
		return nil
	}
	var all map[string]string
	err := json.Unmarshal(data, &all)
	*p = all
	return err
}

// named returns the programs with valid names of the package at a path.
func (p programs) named(at string) map[string]string {
	named := map[string]string{}
	for name, target := range p {
		if name = cmp.Or(name, path.Base(at)); lockGrammar().program.MatchString(name) {
			named[name] = target
		}
	}
	return named
}

// optionalPeers returns the optional peer dependencies; npm uses nothing else of this field.
func optionalPeers(meta map[string]map[string]any) map[string]map[string]bool {
	var kept map[string]map[string]bool
	for name, about := range meta {
		if optional, _ := about["optional"].(bool); optional {
			if kept == nil {
				kept = map[string]map[string]bool{}
			}
			kept[name] = map[string]bool{"optional": true}
		}
	}
	return kept
}

// checkNPM returns an error if npm cannot have written packages.
func checkNPM(packages map[string]NPMPackage) error {
	for at, p := range packages {
		if !lockGrammar().npmPath.MatchString(at) || slices.Contains(strings.Split(at, "/"), "..") {
			return fmt.Errorf("%q is not a path in node_modules", at)
		}
		if !lockGrammar().version.MatchString(p.Version) {
			return fmt.Errorf("%q has no version", at)
		}
		if !lockGrammar().integrity.MatchString(p.Integrity) && !(p.InBundle && p.Integrity == "") {
			return fmt.Errorf("%q has no digest in integrity", at)
		}
		for name := range p.Bin {
			if !lockGrammar().program.MatchString(name) {
				return fmt.Errorf("%q has a program with an invalid name, %q", at, name)
			}
		}
	}
	return nil
}

func text(v any) string {
	data, _ := json.MarshalIndent(v, "", "  ") // maps of strings and plain data always encode
	return string(data) + "\n"
}

// PyPIPackage is a wheel.
type PyPIPackage struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// wantedPyPI returns a requirements.txt for the requested packages.
func (i Image) wantedPyPI() string {
	var b strings.Builder
	for _, w := range i.Package.Wanted {
		b.WriteString(w.Name + w.Spec + "\n")
	}
	return b.String()
}

// pypiFiles returns a requirements.txt with exact versions and digests, and the program's name.
func (i Image) pypiFiles() []file {
	var b strings.Builder
	for _, p := range i.Entry.PyPI {
		fmt.Fprintf(&b, "%s==%s --hash=sha256:%s\n", p.Name, p.Version, p.SHA256)
	}
	return []file{{"requirements.txt", b.String()}, {"program", i.Package.Program}}
}

// constraints returns a constraints.txt with the versions of a package that the lock has for another
// platform.
func (l *Lock) constraints(p mcpconfig.Package) string {
	var b strings.Builder
	for _, e := range l.get().entries {
		if e.Ecosystem == p.Ecosystem && slices.Equal(e.Request, keyOf(p, "").Request) {
			for _, one := range e.PyPI {
				fmt.Fprintf(&b, "%s==%s\n", one.Name, one.Version)
			}
			break
		}
	}
	return b.String()
}

// readReport parses pip's installation report.
// (https://pip.pypa.io/en/stable/reference/installation-report/)
func (i Image) readReport(data []byte, platform string) (Entry, error) {
	var report struct {
		Install []struct {
			DownloadInfo struct {
				ArchiveInfo struct {
					Hash   string
					Hashes map[string]string
				} `json:"archive_info"`
			} `json:"download_info"`
			Metadata struct{ Name, Version string }
		}
	}
	if err := json.Unmarshal(data, &report); err != nil {
		return Entry{}, fmt.Errorf("pip's report about %s cannot be read: %w", i, err)
	}
	e := Entry{key: keyOf(i.Package, platform)}
	for _, one := range report.Install {
		archive := one.DownloadInfo.ArchiveInfo
		sum := cmp.Or(archive.Hashes["sha256"], strings.TrimPrefix(archive.Hash, "sha256="))
		if !lockGrammar().sha256Hex.MatchString(sum) {
			return Entry{}, fmt.Errorf("the index gives no SHA-256 for %s, which %s needs, so it cannot be locked; install the server into an image", one.Metadata.Name, i)
		}
		e.PyPI = append(e.PyPI, PyPIPackage{one.Metadata.Name, one.Metadata.Version, sum})
		if normal(one.Metadata.Name) == normal(i.Package.Wanted[0].Name) {
			e.Version = one.Metadata.Version
		}
	}
	slices.SortFunc(e.PyPI, func(a, b PyPIPackage) int { return strings.Compare(normal(a.Name), normal(b.Name)) })
	return e, e.check()
}

var separators = regexp.MustCompile(`[-_.]+`)

// normal returns a name in normalized form (PEP 503).
func normal(name string) string { return strings.ToLower(separators.ReplaceAllString(name, "-")) }

func checkPyPI(packages []PyPIPackage) error {
	for _, p := range packages {
		if !lockGrammar().pypiName.MatchString(p.Name) || !lockGrammar().version.MatchString(p.Version) || !lockGrammar().sha256Hex.MatchString(p.SHA256) {
			return fmt.Errorf("%q lacks a name, a version or a SHA-256", p.Name)
		}
	}
	return nil
}
