package mcpconfig

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// IsNearbyName says whether a host's name is one that this machine or its network gives,
// so that nobody outside says where it leads: it has no dot, or ends in .localhost (RFC
// 6761), .local (RFC 6762), .home.arpa (RFC 8375) or .internal.
func IsNearbyName(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	below := func(domain string) bool { return strings.HasSuffix(name, domain) }
	return !strings.Contains(name, ".") || slices.ContainsFunc([]string{".localhost", ".local", ".home.arpa", ".internal"}, below)
}

// ReadAddress reads an entry of addresses: an IP address, or a range of them (CIDR). What
// is wrong goes on behind the entry's name, and holds no value.
func ReadAddress(entry string) (netip.Prefix, error) {
	name, in, err := readHost(entry)
	if err == nil && name == "" {
		return in, nil
	}
	return in, errors.New("is neither an IP address nor a range of them without bits beyond its prefix, such as 10.0.0.0/8")
}

// addresses holds that the entries of addresses can be read, and go with a url.
func (f *findings) addresses(s Server) {
	if s.URL == "" && s.Addresses != nil {
		f.invalid("addresses", "addresses goes with url only")
		return
	}
	if s.Proxy != "" && s.Addresses != nil {
		f.invalid("addresses", "addresses does not go with proxy, which finds the addresses of names itself")
	}
	for i, entry := range s.Addresses {
		if _, err := ReadAddress(entry); err != nil && !hasVariable(entry) {
			key := strconv.Itoa(i)
			f.add(ErrInvalid, "addresses", key, "%s %s", where("addresses", key), err)
		}
	}
}
