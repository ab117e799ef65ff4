package stub

import "sync"

// memory counts the troubles that requests have had, by digest: they leave nothing in
// a conversation.
type memory struct {
	mu   sync.Mutex
	seen map[string]int // guarded by mu
}

// maxRemembered bounds the requests that are remembered.
const maxRemembered = 100_000

// next is how many of total troubles the request has had, and counts one more.
func (m *memory) next(key string, total int) int {
	if total == 0 {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	had, known := m.seen[key]
	if had < total && (known || len(m.seen) < maxRemembered) {
		m.seen[key] = had + 1
	}
	return had
}
