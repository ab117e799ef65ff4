// Package observe defines what a guest reports about its container: what its programs do
// besides answering (changed files, started programs, attempted connections), within limits,
// and their resource usage, from cgroup v1 or v2.
//
// It only defines data. It does not watch or limit anything.
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

// Names of the lists of [Seen] in JSON.
const (
	Files       = "files"
	Programs    = "programs"
	Connections = "connections"
	// Missing counts, only in More, attempts to start programs that do not exist, such as when
	// each directory of PATH is tried.
	Missing = "missing_programs"
)

// Unknown is the network of connections whose address could not be read.
const Unknown = "unknown"

// Limits of a [Seen].
const (
	MaxFiles       = 200
	MaxPrograms    = 100
	MaxConnections = 100
	maxText        = 1024 // bytes of a path, address or reason
	maxArgs        = 16
	maxArg         = 200 // bytes of an argument
	maxCounts      = 16  // entries of More and of Unseen
	maxCount       = 1 << 40
)

// Seen is what was observed in one container.
type Seen struct {
	Files       []FileChange `json:"files,omitempty"`
	Programs    []Program    `json:"programs,omitempty"`
	Connections []Connection `json:"connections,omitempty"`
	// More counts what exceeded the limit of each list.
	More map[string]int `json:"more,omitempty"`
	// Unseen says which lists are incomplete, and why. If a list has no entry here, it is
	// complete as far as the guest can tell.
	Unseen map[string]string `json:"unseen,omitempty"`
}

// FileChange is a file that differs between the start and the end of a trial.
type FileChange struct {
	Path string `json:"path"`
	What string `json:"what"`           // created, changed or removed
	Kind string `json:"kind,omitempty"` // file, directory, link or special
	Size int64  `json:"size,omitempty"` // bytes at the end
}

// Program is a program that was started in a container.
type Program struct {
	Path  string   `json:"path"`
	Args  []string `json:"args,omitempty"` // of the first start
	Count int      `json:"count"`
}

// Connection is an address to which a program tried to connect or sent a datagram. Without a
// network, such attempts fail.
type Connection struct {
	Network string `json:"network"` // ip, udp, unix, family-N, or Unknown
	Address string `json:"address"`
	Count   int    `json:"count"`
}

// Outside reports whether the connection leads out of the container.
func (c Connection) Outside() bool {
	if c.Network == "unix" {
		return false
	}
	at, err := netip.ParseAddrPort(c.Address)
	return err != nil || !at.Addr().Unmap().IsLoopback() && !at.Addr().IsUnspecified()
}

// AddFiles adds changes. Those above the limit are only counted.
func (s *Seen) AddFiles(changes []FileChange) {
	if s.More == nil {
		s.More = map[string]int{}
	}
	s.Files = first(append(s.Files, changes...), MaxFiles, s.More, Files)
}

// Lack records why a list is incomplete. The first reason is kept.
func (s *Seen) Lack(list, why string) {
	if s.Unseen == nil {
		s.Unseen = map[string]string{}
	}
	if _, reported := s.Unseen[list]; !reported {
		s.Unseen[list] = Text(why)
	}
}

// Parse parses a guest's report, and drops what exceeds the limits.
func Parse(said []byte) (Seen, error) {
	var s Seen
	if err := json.Unmarshal(said, &s); err != nil {
		return Seen{}, fmt.Errorf("what was seen: %w", err)
	}
	return s.bounded(), nil
}

// bounded returns s within the limits.
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

// other replaces words that are not known, because they may be printed to a terminal.
const other = "other"

// known returns word if it is one of words, else [other].
func known(word string, words ...string) string {
	if slices.Contains(words, word) {
		return word
	}
	return other
}

// network returns the name of a network if it is known, else [other].
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

// Text returns s truncated to the limit and as valid UTF-8.
func Text(s string) string { return cut(s, maxText) }

// argsOf returns a program's arguments within the limits.
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

// Nothing returns the Seen of a container that is not watched.
func Nothing(why string) (s Seen) {
	for _, list := range []string{Files, Programs, Connections} {
		s.Lack(list, why)
	}
	return s
}
