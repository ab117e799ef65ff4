package observe

import (
	"maps"
	"slices"
	"sync"
)

// Ledger counts programs and connections as they come, each kind once. However many
// come, it holds no more than [MaxPrograms] and [MaxConnections].
type Ledger struct {
	mu      sync.Mutex
	seen    Seen              // without files; guarded by mu
	program map[string]int    // where it stands, by path; guarded by mu
	place   map[[2]string]int // where a connection stands, by network and address; guarded by mu
	inside  int               // connections that lead nowhere outside; guarded by mu
}

// NewLedger is one in which nothing stands.
func NewLedger() *Ledger {
	return &Ledger{seen: Seen{More: map[string]int{}}, program: map[string]int{}, place: map[[2]string]int{}}
}

// Program counts a start. args is asked where the program is new.
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
		l.seen.Programs = append(l.seen.Programs, Program{path, Args(args()), 1})
	}
}

// Connection counts a try to connect.
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

// hasRoomLocked keeps half of the room for what leads outside: no number of other
// connections hides such.
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

// Missing counts a try to start what is not there.
func (l *Ledger) Missing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.More[Missing]++
}

// Lack says why a list lacks something. The first reason stays.
func (l *Ledger) Lack(list, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.Lack(list, why)
}

// Seen is what stands in the ledger, which goes on.
func (l *Ledger) Seen() Seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Seen{
		Programs: slices.Clone(l.seen.Programs), Connections: slices.Clone(l.seen.Connections),
		More: maps.Clone(l.seen.More), Unseen: maps.Clone(l.seen.Unseen),
	}
}
