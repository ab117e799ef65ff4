package images

import (
	"fmt"
	"maps"

	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Catalogs returns the pinned catalogs by server.
func (l *Lock) Catalogs() map[string]catalog.Pin { return maps.Clone(l.get().catalogs) }

// Pin returns the pinned catalog of a server, or nil.
func (l *Lock) Pin(server string) *catalog.Pin {
	if pin, there := l.get().catalogs[server]; there {
		return &pin
	}
	return nil
}

// Has reports whether the lock has an entry with the key of e.
func (l *Lock) Has(e Entry) bool { return l.find(e.key) != nil }

// Pinned returns the lock with the catalog of a server added, replacing any earlier one.
func (l *Lock) Pinned(server string, pin catalog.Pin) *Lock {
	with := &Lock{entries: l.get().entries, catalogs: map[string]catalog.Pin{}}
	maps.Copy(with.catalogs, l.get().catalogs)
	with.catalogs[server] = pin
	return with
}

// checkPin returns an error if a pin read from a file is invalid.
func checkPin(server string, pin catalog.Pin) error {
	if err := mcpconfig.CheckName(server); err != nil {
		return fmt.Errorf("has a catalog of an invalid server: the name %q %w", server, err)
	}
	if err := pin.Check(); err != nil {
		return fmt.Errorf("has an invalid catalog of server %q: %w", server, err)
	}
	return nil
}
