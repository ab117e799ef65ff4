package images

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcpconfig"
)

// LockName is the name of the lock file, next to the eval.
const LockName = "waza.lock"

// MaxLockBytes is the maximum size of a lock file.
const MaxLockBytes = 16 << 20

// lockVersion is the version of the format.
const lockVersion = 1

// Lock holds the resolved versions of packages and the pinned catalogs of servers. It is
// immutable: With, Fill, Only and Pinned return a modified copy. A nil lock is empty.
type Lock struct {
	entries  []Entry                // unique and sorted by key
	catalogs map[string]catalog.Pin // by server
}

// Entry is the resolved version of one package with all its dependencies.
type Entry struct {
	key
	Version string                `json:"version"`
	NPM     map[string]NPMPackage `json:"npm,omitempty"`
	PyPI    []PyPIPackage         `json:"pypi,omitempty"`
}

// key identifies an entry.
type key struct {
	Ecosystem string   `json:"ecosystem"`
	Request   []string `json:"request"` // the packages as written in the eval
	// Platform is the platform of PyPI wheels. Entries of npm apply to all platforms.
	Platform string `json:"platform,omitempty"`
}

func keyOf(p mcpconfig.Package, platform string) key {
	k := key{Ecosystem: p.Ecosystem}
	for _, w := range p.Wanted {
		k.Request = append(k.Request, w.Text)
	}
	if p.Ecosystem == mcpconfig.PyPI {
		k.Platform = platform
	}
	return k
}

func (k key) compare(other key) int {
	return strings.Compare(k.text(), other.text())
}

func (k key) text() string {
	return strings.Join(append([]string{k.Ecosystem, k.Platform}, k.Request...), "\x00")
}

// get returns the lock's content, which is empty for a nil lock.
func (l *Lock) get() Lock {
	if l == nil {
		return Lock{}
	}
	return *l
}

func (l *Lock) find(k key) *Entry {
	for _, e := range l.get().entries {
		if e.compare(k) == 0 {
			return &e
		}
	}
	return nil
}

// With returns the lock with e added, replacing any entry with the same key.
func (l *Lock) With(e Entry) *Lock {
	with := &Lock{catalogs: l.Catalogs()}
	with.entries = slices.DeleteFunc(slices.Clone(l.get().entries), func(old Entry) bool { return old.compare(e.key) == 0 })
	with.entries = append(with.entries, e)
	slices.SortFunc(with.entries, func(a, b Entry) int { return a.compare(b.key) })
	return with
}

// Fill returns the lock with those entries added whose keys it lacks.
func (l *Lock) Fill(entries []Entry) *Lock {
	for _, e := range entries {
		if l.find(e.key) == nil {
			l = l.With(e)
		}
	}
	return l
}

// Only returns the lock with only the entries of the given packages, for all platforms. It keeps pinned
// catalogs.
func (l *Lock) Only(packages []mcpconfig.Package) *Lock {
	only := &Lock{catalogs: l.Catalogs()}
	for _, e := range l.get().entries {
		if slices.ContainsFunc(packages, func(p mcpconfig.Package) bool { return keyOf(p, e.Platform).compare(e.key) == 0 }) {
			only.entries = append(only.entries, e)
		}
	}
	return only
}

// Len returns the number of entries.
func (l *Lock) Len() int { return len(l.get().entries) }

// document is the lock as a JSON document.
type document struct {
	Version  int                    `json:"version"`
	Packages []Entry                `json:"packages"`
	Catalogs map[string]catalog.Pin `json:"catalogs,omitempty"`
}

// Bytes returns the contents of the lock file. Equal locks yield equal bytes.
func (l *Lock) Bytes() []byte {
	d := document{Version: lockVersion, Packages: append([]Entry{}, l.get().entries...), Catalogs: l.Catalogs()}
	data, _ := jsontext.MarshalIndent(d) // plain data always encodes
	return data
}

// ParseLock parses a lock file. Its error is one sentence, whose subject is the name of the file.
func ParseLock(data []byte) (*Lock, error) {
	if len(data) > MaxLockBytes {
		return nil, fmt.Errorf("is larger than %d MiB", MaxLockBytes>>20)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var d document
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("is not a valid lock file: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("is not a valid lock file: it has data after the JSON document")
	}
	if d.Version != lockVersion {
		return nil, fmt.Errorf("has version %d, and this waza supports version %d", d.Version, lockVersion)
	}
	l := &Lock{}
	for _, e := range d.Packages {
		if err := e.check(); err != nil {
			return nil, err
		}
		if l.find(e.key) != nil {
			return nil, fmt.Errorf("has %s twice", e.named())
		}
		l = l.With(e)
	}
	for server, pin := range d.Catalogs {
		if err := checkPin(server, pin); err != nil {
			return nil, err
		}
		l = l.Pinned(server, pin)
	}
	return l, nil
}

// grammar holds the patterns for strings in a lock. They are compiled on first use: they
// are large, and most commands and all guests do not need them.
type grammar struct {
	version, npmPath, integrity, program, pypiName, sha256Hex, platform *regexp.Regexp
}

var lockGrammar = sync.OnceValue(func() *grammar {
	return &grammar{
		version:   regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+!_-]{0,199}$`),
		npmPath:   regexp.MustCompile(`^node_modules/[A-Za-z0-9@._~/-]{1,1000}$`),
		integrity: regexp.MustCompile(`^sha(256|384|512)-[A-Za-z0-9+/]{20,100}={0,2}( sha(256|384|512)-[A-Za-z0-9+/]{20,100}={0,2})*$`),
		program:   regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$`),
		pypiName:  regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,198}[A-Za-z0-9])?$`),
		sha256Hex: regexp.MustCompile(`^[0-9a-f]{64}$`),
		platform:  regexp.MustCompile(`^linux/[a-z0-9]{1,20}$`),
	}
})

func (e Entry) named() string { return e.Ecosystem + ":" + strings.Join(e.Request, " ") }

// check returns an error if e is incomplete, or contains a string that npm or pip might interpret as
// something other than a name, version or digest.
func (e Entry) check() error {
	var err error
	switch {
	case len(e.Request) == 0:
		return errors.New("has an entry without a request")
	case e.Ecosystem == mcpconfig.NPM && len(e.NPM) > 0 && e.PyPI == nil && e.Platform == "":
		err = errors.Join(checkNPM(e.NPM), e.checkRequested())
	case e.Ecosystem == mcpconfig.PyPI && len(e.PyPI) > 0 && e.NPM == nil && lockGrammar().platform.MatchString(e.Platform):
		err = checkPyPI(e.PyPI)
	default:
		return fmt.Errorf("has an incomplete entry, %q", e.named())
	}
	if err == nil && !lockGrammar().version.MatchString(e.Version) {
		err = errors.New("its version is missing")
	}
	if err != nil {
		return fmt.Errorf("has a bad entry, %q: %w", e.named(), err)
	}
	return nil
}

// checkRequested returns an error if a requested package is not among the npm packages.
func (e Entry) checkRequested() error {
	for i, text := range e.Request {
		name := text
		if at := strings.LastIndexByte(text, '@'); at > 0 {
			name = text[:at]
		}
		have, ok := e.NPM[modulePath(name)]
		if !ok || i == 0 && have.Version != e.Version {
			return fmt.Errorf("%s is not in its manifest in that version", text)
		}
	}
	return nil
}
