package mcpconfig

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// NamePattern is what a server's name must match: a DNS label (RFC 1123), since
// the agent reaches the server under it.
const NamePattern = `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`

var namePattern = regexp.MustCompile(NamePattern)

// ReservedNames are names on the task network that are not for servers.
func ReservedNames() []string { return []string{"localhost", "model", "proxy", "relay"} }

// CheckName says what is wrong with a server's name.
func CheckName(name string) error {
	switch {
	case slices.Contains(ReservedNames(), name):
		return fmt.Errorf("server name %q is reserved; choose another", name)
	case len(name) > 63:
		return errors.New("a server name has at most 63 characters, since it is a host name")
	case !namePattern.MatchString(name):
		return fmt.Errorf("server name %q is not a host name; use lowercase letters, digits and hyphens between them", name)
	}
	return nil
}
