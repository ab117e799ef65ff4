package proxy

import "time"

// statelessVersion is the first revision without sessions.
const statelessVersion = "2026-07-28"

// lastSessionVersion is the last revision with sessions.
const lastSessionVersion = "2025-11-25"

// isStateless says whether version is a revision without sessions. Revisions are
// dates, so they compare as text.
func isStateless(version string) bool {
	_, err := time.Parse(time.DateOnly, version)
	return err == nil && version >= statelessVersion
}

// isSessionVersion says whether version is a revision with sessions. 2024-11-05
// has no streamable HTTP, but clients that negotiated it over this transport
// name it.
func isSessionVersion(version string) bool {
	switch version {
	case "2024-11-05", "2025-03-26", "2025-06-18", lastSessionVersion:
		return true
	}
	return false
}
