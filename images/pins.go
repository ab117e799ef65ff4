package images

import (
	"fmt"
	"maps"

	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Catalogs is what is pinned, by the server's name.
func (l *Lock) Catalogs() map[string]catalog.Pin {
	if l == nil {
		return nil
	}
	return maps.Clone(l.catalogs)
}

// Pin is what is pinned of a server; nil for nothing.
func (l *Lock) Pin(server string) *catalog.Pin {
	if l == nil {
		return nil
	}
	if pin, there := l.catalogs[server]; there {
		return &pin
	}
	return nil
}

// Has says whether the lock has something under an entry's key.
func (l *Lock) Has(e Entry) bool { return l.find(e.key) != nil }

// Pinned is the lock with a server pinned, in place of what it has of it.
func (l *Lock) Pinned(server string, pin catalog.Pin) *Lock {
	with := &Lock{catalogs: map[string]catalog.Pin{}}
	if l != nil {
		with.entries = l.entries
	}
	maps.Copy(with.catalogs, l.Catalogs())
	with.catalogs[server] = pin
	return with
}

// checkPin holds that a pin which a file has is whole.
func checkPin(server string, pin catalog.Pin) error {
	if err := mcpconfig.CheckName(server); err != nil {
		return fmt.Errorf("has a catalog of no server: %w", err)
	}
	if err := pin.Check(); err != nil {
		return fmt.Errorf("has a bad catalog, of server %q: %w", server, err)
	}
	return nil
}
