package observe

import (
	"maps"
	"slices"
	"sync"
)

// Ledger counts program starts and connections. It lists each program and address once, and no more
// than [MaxPrograms] and [MaxConnections] of them.
type Ledger struct {
	mu      sync.Mutex
	seen    Seen              // without files; guarded by mu
	program map[string]int    // index in seen.Programs, by path; guarded by mu
	place   map[[2]string]int // index in seen.Connections, by network and address; guarded by mu
	inside  int               // listed connections to addresses inside the container; guarded by mu
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{seen: Seen{More: map[string]int{}}, program: map[string]int{}, place: map[[2]string]int{}}
}

// Program counts the start of a program. args is called if the program was not listed before.
func (l *Ledger) Program(path string, args func() []string) {
	path = Text(path)
	l.mu.Lock()
	defer l.mu.Unlock()
	at, known := l.program[path]
	switch {
	case known:
		l.seen.Programs[at].Count++
	case len(l.seen.Programs) == MaxPrograms:
		l.seen.More[Programs]++
	default:
		l.program[path] = len(l.seen.Programs)
		l.seen.Programs = append(l.seen.Programs, Program{path, argsOf(args()), 1})
	}
}

// Connection counts an attempt to connect.
func (l *Ledger) Connection(network, address string) {
	key := [2]string{network, Text(address)}
	l.mu.Lock()
	defer l.mu.Unlock()
	at, known := l.place[key]
	switch {
	case known:
		l.seen.Connections[at].Count++
	case !l.hasRoomLocked(Connection{key[0], key[1], 1}):
		l.seen.More[Connections]++
	default:
		l.place[key] = len(l.seen.Connections)
		l.seen.Connections = append(l.seen.Connections, Connection{key[0], key[1], 1})
	}
}

// hasRoomLocked reports whether c can be listed. Half of the list is reserved for connections
// to the outside, so that others cannot hide them.
func (l *Ledger) hasRoomLocked(c Connection) bool {
	switch {
	case len(l.seen.Connections) == MaxConnections:
		return false
	case c.Outside():
		return true
	case l.inside == MaxConnections/2:
		return false
	}
	l.inside++
	return true
}

// Missing counts an attempt to start a program that does not exist.
func (l *Ledger) Missing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.More[Missing]++
}

// Lack records why a list is incomplete. The first reason counts.
func (l *Ledger) Lack(list, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.Lack(list, why)
}

// Seen returns a copy of what was counted so far.
func (l *Ledger) Seen() Seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Seen{
		Programs: slices.Clone(l.seen.Programs), Connections: slices.Clone(l.seen.Connections),
		More: maps.Clone(l.seen.More), Unseen: maps.Clone(l.seen.Unseen),
	}
}
