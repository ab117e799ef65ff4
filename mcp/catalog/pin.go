package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Pin holds digests of an approved catalog. It shows which entries of another catalog are
// added, removed or changed, but not how they changed.
type Pin struct {
	Server
	// Instructions is the digest of the text; empty without instructions.
	Instructions string `json:"instructions,omitempty"`
	// Lists holds the digest of each entry by kind and key. Digests depend on JSON values,
	// not on their formatting.
	Lists map[Kind]map[string]string `json:"lists"`
}

// Limits on a pin.
const (
	maxPinned = 10_000  // entries per kind
	maxKey    = 4 << 10 // bytes of a key
)

// Pin returns the pin of a catalog. It returns an error if a list is incomplete.
func (o Catalog) Pin() (Pin, error) {
	p := Pin{Server: o.Server, Lists: map[Kind]map[string]string{}}
	if o.Instructions != "" {
		p.Instructions = digest(o.Instructions)
	}
	for _, k := range Kinds() {
		l := o.Of(k)
		if l.Partial != "" {
			return Pin{}, fmt.Errorf("its list of %s is incomplete: %s", strings.ReplaceAll(string(k), "_", " "), l.Partial)
		}
		digests := l.digests()
		if _, nameless := digests[""]; nameless {
			return Pin{}, fmt.Errorf("it has a %s without a %s", k.One(), k.key())
		}
		if len(digests) > 0 {
			p.Lists[k] = digests
		}
	}
	return p, p.Check()
}

// digests returns the digests of a list's entries by key. Entries with the same key share
// one digest of all of them in order, since clients differ in which one they use.
func (l List) digests() map[string]string {
	found := map[string]string{}
	for _, e := range l.Entries {
		one, ok := jsontext.Digest(e.Raw)
		if !ok {
			continue // cannot happen: an entry is an element of a JSON array
		}
		if first, twice := found[e.Key]; twice {
			one = digest(first + one)
		}
		found[e.Key] = one
	}
	return found
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Check reports what is wrong with a pin read from a file.
func (p Pin) Check() error {
	if p.Instructions != "" && !isDigest(p.Instructions) {
		return errors.New("instructions is not a SHA-256 digest")
	}
	for k, digests := range p.Lists {
		switch {
		case !slices.Contains(Kinds(), k):
			return fmt.Errorf("%q is not a kind of list", k)
		case len(digests) > maxPinned:
			return fmt.Errorf("more than %d %s", maxPinned, k)
		}
		for key, one := range digests {
			if key == "" || len(key) > maxKey || !isDigest(one) {
				return fmt.Errorf("an entry of %s is not a name of at most %d bytes with its SHA-256", k, maxKey)
			}
		}
	}
	return nil
}

func isDigest(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == sha256.Size && strings.ToLower(s) == s
}

// Len returns the number of pinned entries.
func (p Pin) Len() (n int) {
	for _, digests := range p.Lists {
		n += len(digests)
	}
	return n
}

// Kinds of differences.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Difference is an entry, or the instructions, that differs from its pin.
type Difference struct {
	Kind Kind   `json:"kind,omitempty"` // empty for instructions
	Key  string `json:"key,omitempty"`  // empty for instructions
	What string `json:"what"`           // added, removed or changed
}

// String returns a phrase such as: tool "x" changed. The key is quoted as written by the
// server.
func (d Difference) String() string {
	if d.Kind == "" {
		return "instructions " + d.What
	}
	return fmt.Sprintf("%s %q %s", d.Kind.One(), d.Key, d.What)
}

// Differences returns how o differs from the pin, sorted by kind and key. Entries missing
// from an incomplete list do not count as removed.
func (p Pin) Differences(o Catalog) []Difference {
	var all []Difference
	if what := compare(p.Instructions, instructionsOf(o)); what != "" {
		all = append(all, Difference{What: what})
	}
	for _, k := range Kinds() {
		l := o.Of(k)
		all = append(all, p.inList(k, l.digests(), l.Partial == "")...)
	}
	return all
}

// Changes returns the differences between two catalogs. If a list is incomplete in either,
// only the entries in both are compared.
func Changes(before, after Catalog) (all []Difference) {
	for _, k := range Kinds() {
		was, is := before.Of(k), after.Of(k)
		p := Pin{Lists: map[Kind]map[string]string{k: was.digests()}}
		for _, d := range p.inList(k, is.digests(), is.Partial == "") {
			if d.What == Changed || was.Partial == "" && is.Partial == "" {
				all = append(all, d)
			}
		}
	}
	return all
}

// Tools returns which tools, given by the digests of their entries, differ from the pin.
// whole reports that the list is complete.
func (p Pin) Tools(digests map[string]string, whole bool) []Difference {
	return p.inList(Tools, digests, whole)
}

func (p Pin) inList(k Kind, found map[string]string, whole bool) (all []Difference) {
	pinned := p.Lists[k]
	keys := maps.Clone(found)
	if keys == nil {
		keys = map[string]string{}
	}
	if whole {
		for key := range pinned {
			if _, there := keys[key]; !there {
				keys[key] = ""
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if what := compare(pinned[key], found[key]); what != "" {
			all = append(all, Difference{k, key, what})
		}
	}
	return all
}

func compare(was, is string) string {
	switch {
	case was == is:
		return ""
	case was == "":
		return Added
	case is == "":
		return Removed
	}
	return Changed
}

func instructionsOf(o Catalog) string {
	if o.Instructions == "" {
		return ""
	}
	return digest(o.Instructions)
}
