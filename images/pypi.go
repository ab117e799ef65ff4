package images

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/mcpconfig"
)

// PyPIPackage is one wheel.
type PyPIPackage struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// wantedPyPI is the requirements of what was asked for.
func (i Image) wantedPyPI() string {
	var b strings.Builder
	for _, w := range i.Package.Wanted {
		b.WriteString(w.Name + w.Spec + "\n")
	}
	return b.String()
}

// pypiFiles are the requirements with their digests, and the program's name.
func (i Image) pypiFiles() []file {
	var b strings.Builder
	for _, p := range i.Entry.PyPI {
		fmt.Fprintf(&b, "%s==%s --hash=sha256:%s\n", p.Name, p.Version, p.SHA256)
	}
	return []file{{"requirements.txt", b.String()}, {"program", i.Package.Program}}
}

// constraints holds a package to the versions that the lock has of it for another
// platform.
func (l *Lock) constraints(p mcpconfig.Package) string {
	var b strings.Builder
	if l == nil {
		return ""
	}
	for _, e := range l.entries {
		if e.Ecosystem == p.Ecosystem && slices.Equal(e.Request, keyOf(p, "").Request) {
			for _, one := range e.PyPI {
				fmt.Fprintf(&b, "%s==%s\n", one.Name, one.Version)
			}
			break
		}
	}
	return b.String()
}

// readReport reads what pip resolved.
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

// normal is a name as indexes compare names (PEP 503).
func normal(name string) string { return strings.ToLower(separators.ReplaceAllString(name, "-")) }

func checkPyPI(packages []PyPIPackage) error {
	for _, p := range packages {
		if !lockGrammar().pypiName.MatchString(p.Name) || !lockGrammar().version.MatchString(p.Version) || !lockGrammar().sha256Hex.MatchString(p.SHA256) {
			return fmt.Errorf("%q lacks a name, a version or a SHA-256", p.Name)
		}
	}
	return nil
}
