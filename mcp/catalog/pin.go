package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsonvalue"
)

// Pin holds digests of a catalog that somebody approved: enough to find out which entries of another
// catalog are new, gone or changed, and not how.
type Pin struct {
	Server
	// Instructions is the digest of the text; empty where there is none.
	Instructions string `json:"instructions,omitempty"`
	// Lists has the digest of each entry, by its kind and key. Entries are compared by
	// their value, not by how their JSON is written.
	Lists map[Kind]map[string]string `json:"lists"`
}

// Most of what a pin holds.
const (
	maxPinned = 10_000  // entries of a kind
	maxKey    = 4 << 10 // bytes of an entry's key
)

// Pin returns the pin of a catalog whose lists are complete.
func (o Catalog) Pin() (Pin, error) {
	p := Pin{Server: o.Server, Lists: map[Kind]map[string]string{}}
	if o.Instructions != "" {
		p.Instructions = digest(o.Instructions)
	}
	for _, k := range Kinds() {
		l := o.Of(k)
		if l.Partial != "" {
			return Pin{}, fmt.Errorf("its list of %s is not whole: %s", strings.ReplaceAll(string(k), "_", " "), l.Partial)
		}
		digests := l.digests()
		if _, nameless := digests[""]; nameless {
			return Pin{}, fmt.Errorf("a %s of it has no %s", k.One(), k.key())
		}
		if len(digests) > 0 {
			p.Lists[k] = digests
		}
	}
	return p, p.Check()
}

// digests returns the digests of a list's entries, by key. Entries with one key share a digest of all
// of them in their order: clients differ in which of them counts.
func (l List) digests() map[string]string {
	found := map[string]string{}
	for _, e := range l.Entries {
		one, ok := jsonvalue.Digest(e.Raw)
		if !ok {
			continue // an entry is an element of a JSON array
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

// Check returns what is wrong with a pin that was read from a file.
func (p Pin) Check() error {
	if p.Instructions != "" && !isDigest(p.Instructions) {
		return errors.New("instructions are no SHA-256")
	}
	for k, digests := range p.Lists {
		switch {
		case !slices.Contains(Kinds(), k):
			return fmt.Errorf("%q is no kind of list", k)
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

// Len returns how many entries are pinned.
func (p Pin) Len() (n int) {
	for _, digests := range p.Lists {
		n += len(digests)
	}
	return n
}

// What became of something that was pinned.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Difference is an entry, or the instructions, that is not as it was pinned.
type Difference struct {
	Kind Kind   `json:"kind,omitempty"` // none of instructions
	Key  string `json:"key,omitempty"`  // the same
	What string `json:"what"`           // added, removed or changed
}

// String says which, in one phrase. The key is as the server wrote it.
func (d Difference) String() string {
	if d.Kind == "" {
		return "instructions " + d.What
	}
	return fmt.Sprintf("%s %q %s", d.Kind.One(), d.Key, d.What)
}

// Differences lists what in o is not as it is pinned, by kind and then key. What is missing from a
// list that is not complete does not count as removed.
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

// Changes lists what differs between two catalogs. Of a list that is not complete in both, only what
// both have is compared.
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

// Tools lists which tools, given by the digests of their entries, are not as they are pinned. whole
// says that there are no others.
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
