// Package observe defines what a guest reports of its container: what the programs in it do
// besides answering (files changed, programs started, connections tried), counted within
// bounds, and what they use, read from control groups of version 1 or 2.
//
// It watches nothing itself, limits nothing and blames nobody.
package observe

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Names of the lists of [Seen], as its JSON has them.
const (
	Files       = "files"
	Programs    = "programs"
	Connections = "connections"
	// Missing counts, in More alone, tries to start what was not there, as when a program
	// is looked for in one directory of PATH after the other.
	Missing = "missing_programs"
)

// Unknown is the network of connections whose address nobody could read.
const Unknown = "unknown"

// Bounds of one [Seen].
const (
	MaxFiles       = 200
	MaxPrograms    = 100
	MaxConnections = 100
	maxText        = 1024 // bytes of a path, an address or a reason
	maxArgs        = 16
	maxArg         = 200 // bytes of one
	maxCounts      = 16  // entries of More, and of Unseen
	maxCount       = 1 << 40
)

// Seen is what was seen of one container.
type Seen struct {
	Files       []FileChange `json:"files,omitempty"`
	Programs    []Program    `json:"programs,omitempty"`
	Connections []Connection `json:"connections,omitempty"`
	// More counts what was seen beyond what is listed, by the list's name.
	More map[string]int `json:"more,omitempty"`
	// Unseen says what could not be watched, and why, by the list's name. What is absent
	// here and has no entry did not happen as far as a guest can tell.
	Unseen map[string]string `json:"unseen,omitempty"`
}

// FileChange is a file of a container that differs between the trial's begin and its end.
type FileChange struct {
	Path string `json:"path"`
	What string `json:"what"`           // created, changed or removed
	Kind string `json:"kind,omitempty"` // file, directory, link or special
	Size int64  `json:"size,omitempty"` // bytes at the end
}

// Program is a program that was started in a container, however often.
type Program struct {
	Path  string   `json:"path"`
	Args  []string `json:"args,omitempty"` // of the first time
	Count int      `json:"count"`
}

// Connection is where a program of a container tried to connect to, or sent a datagram. Of a
// container without a network that leads nowhere.
type Connection struct {
	Network string `json:"network"` // ip, udp, unix, family-N, or Unknown
	Address string `json:"address"`
	Count   int    `json:"count"`
}

// Outside reports whether the connection was to lead out of the container.
func (c Connection) Outside() bool {
	if c.Network == "unix" {
		return false
	}
	at, err := netip.ParseAddrPort(c.Address)
	return err != nil || !at.Addr().Unmap().IsLoopback() && !at.Addr().IsUnspecified()
}

// AddFiles adds changes, of which what is over the bound is counted.
func (s *Seen) AddFiles(changes []FileChange) {
	if s.More == nil {
		s.More = map[string]int{}
	}
	s.Files = first(append(s.Files, changes...), MaxFiles, s.More, Files)
}

// Lack says why a list lacks something. The first reason stays.
func (s *Seen) Lack(list, why string) {
	if s.Unseen == nil {
		s.Unseen = map[string]string{}
	}
	if _, reported := s.Unseen[list]; !reported {
		s.Unseen[list] = Text(why)
	}
}

// Parse reads what a guest says as JSON, and keeps of it what is within the bounds.
func Parse(said []byte) (Seen, error) {
	var s Seen
	if err := json.Unmarshal(said, &s); err != nil {
		return Seen{}, fmt.Errorf("what was seen: %w", err)
	}
	return s.bounded(), nil
}

// bounded returns s without what is more than a guest of ours says.
func (s Seen) bounded() Seen {
	b := Seen{More: map[string]int{}, Unseen: map[string]string{}}
	for name, count := range s.More {
		if len(b.More) < maxCounts && count > 0 {
			b.More[Text(name)] = min(count, maxCount)
		}
	}
	for name, why := range s.Unseen {
		if len(b.Unseen) < maxCounts {
			b.Unseen[Text(name)] = Text(why)
		}
	}
	b.Files = first(s.Files, MaxFiles, b.More, Files)
	b.Programs = first(s.Programs, MaxPrograms, b.More, Programs)
	b.Connections = first(s.Connections, MaxConnections, b.More, Connections)
	for i, f := range b.Files {
		b.Files[i] = FileChange{Text(f.Path), known(f.What, "created", "changed", "removed"), known(f.Kind, "", "file", "directory", "link", "special"), max(f.Size, 0)}
	}
	for i, p := range b.Programs {
		b.Programs[i] = Program{Text(p.Path), argsOf(p.Args), min(max(p.Count, 1), maxCount)}
	}
	for i, c := range b.Connections {
		b.Connections[i] = Connection{network(c.Network), Text(c.Address), min(max(c.Count, 1), maxCount)}
	}
	return b
}

// other stands for a word that no guest of ours says: what reads it may be a terminal.
const other = "other"

// known returns word where it is one of these.
func known(word string, words ...string) string {
	if slices.Contains(words, word) {
		return word
	}
	return other
}

// network returns the name of one, as [Address] has them and those who carry it.
func network(name string) string {
	if number, ok := strings.CutPrefix(name, "family-"); ok {
		if _, err := strconv.ParseUint(number, 10, 16); err == nil {
			return name
		}
	}
	return known(name, "ip", "udp", "unix", Unknown)
}

func first[T any](all []T, most int, more map[string]int, name string) []T {
	if over := len(all) - most; over > 0 {
		more[name] += over
		return all[:most]
	}
	return all
}

// Text returns a name as it is kept: cut where it is long, and whole characters.
func Text(s string) string { return cut(s, maxText) }

// argsOf returns a program's arguments as they are kept.
func argsOf(all []string) []string {
	var kept []string
	for _, arg := range all[:min(len(all), maxArgs)] {
		kept = append(kept, cut(arg, maxArg))
	}
	return kept
}

func cut(s string, most int) string {
	more := ""
	if len(s) > most {
		end := most
		for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s, more = s[:end], "…"
	}
	return strings.ToValidUTF8(s, "?") + more
}

// Nothing returns what is seen of a container that is not watched.
func Nothing(why string) (s Seen) {
	for _, list := range []string{Files, Programs, Connections} {
		s.Lack(list, why)
	}
	return s
}
