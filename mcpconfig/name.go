package mcpconfig

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// NamePattern is what a server's name must match: files and containers are called by it.
const NamePattern = `^[A-Za-z0-9_][A-Za-z0-9_-]{0,62}$`

// LabelPattern is what a host name of one word must match: a DNS label (RFC 1123).
const LabelPattern = `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`

var (
	namePattern  = regexp.MustCompile(NamePattern)
	labelPattern = regexp.MustCompile(LabelPattern)
)

// ReservedNames are host names on the task network that are not for servers.
func ReservedNames() []string { return []string{"localhost", "model", "proxy"} }

// HostName is the host name under which the agent reaches the server of a name: the name
// itself, or the nearest to it, in lowercase and with a hyphen for each run of what host
// names do not have. It is empty where nothing is left.
func HostName(name string) string {
	if labelPattern.MatchString(name) {
		return name
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
	return strings.Join(words, "-")
}

// HostNames are the host names of servers, by their names. It fails where two are the same.
func HostNames(servers []string) (map[string]string, error) {
	hosts, taken := map[string]string{}, map[string]string{}
	for _, name := range servers {
		host := HostName(name)
		if first, found := taken[host]; found {
			return nil, fmt.Errorf("servers %q and %q would both have the host name %s; rename one", first, name, host)
		}
		hosts[name], taken[host] = host, name
	}
	return hosts, nil
}

// CheckName returns what is wrong with a server's name.
func CheckName(name string) error {
	switch host := HostName(name); {
	case len(name) > 63:
		return errors.New("a server name has at most 63 characters, since it becomes a host name")
	case !namePattern.MatchString(name):
		return fmt.Errorf("server name %q has other characters than letters, digits, - and _, or begins with -; choose another", name)
	case host == "":
		return fmt.Errorf("no host name can be made of the server name %q; choose one with letters or digits", name)
	case slices.Contains(ReservedNames(), host):
		return fmt.Errorf("server name %q is reserved; choose another", name)
	}
	return nil
}
