//go:build !linux

package containers

// seccompProfile returns "" for the engine's own profile, which is sufficient without a
// network.
func seccompProfile() (string, error) { return "", nil }
