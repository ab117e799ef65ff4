package mcpconfig

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Egress is an entry of egress as written in a file: a host that may be accessed, with its ports.
type Egress struct {
	Host    string `json:"host" jsonschema:"HOST:PORT, HOST for ports 443 and 80, *.HOST:PORT for every name below HOST, or IP:PORT or CIDR:PORT"`
	Ports   []int  `json:"ports,omitempty" min:"1" max:"65535" jsonschema:"TCP ports, if host has none; default 443 and 80"`
	Address string `json:"address,omitempty" jsonschema:"IP or IP:PORT for the runner to connect to, instead of resolving the name; may be private"`
}

// String formats the entry.
func (e Egress) String() string {
	text := e.Host
	if e.Ports != nil {
		text += fmt.Sprintf(" ports %d", e.Ports)
	}
	if e.Address != "" {
		text += " at " + e.Address
	}
	return text
}

// SetShort reads an entry that is only a host.
func (e *Egress) SetShort(host string) error {
	if host == "" {
		return errors.New("it must not be empty")
	}
	e.Host = host
	return nil
}

// Destination is a parsed entry of egress: a name or address range, with the allowed ports.
type Destination struct {
	// Name is in lower case. A leading "*." matches every name below the rest, but not the rest itself. Name
	// is empty if there is a Range.
	Name  string       `json:"name,omitempty"`
	Range netip.Prefix `json:"range,omitzero"`
	Ports []int        `json:"ports"`
	// Address is connected to instead of the addresses of Name. The port is Port, unless that is 0.
	Address netip.Addr `json:"address,omitzero"`
	Port    int        `json:"port,omitempty"`
}

// String formats the destination as in a file.
func (d Destination) String() string {
	host := d.Name
	switch {
	case d.Name != "":
	case d.Range.IsSingleIP():
		host = d.Range.Addr().String()
	default:
		host = d.Range.String()
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	ports := make([]string, len(d.Ports))
	for i, port := range d.Ports {
		ports[i] = host + ":" + strconv.Itoa(port)
	}
	at := ""
	if d.Address.IsValid() {
		at = " at " + d.Address.String()
		if d.Port != 0 {
			at = " at " + netip.AddrPortFrom(d.Address, uint16(d.Port)).String()
		}
	}
	return strings.Join(ports, ", ") + at
}

// maxEgressPorts is the maximum number of ports of all of a container's entries together: its guest listens
// on each.
const maxEgressPorts = 128

// EgressProblem is an error in the entry at Index, or in the whole list if Index is -1.
// Like an [Error] it contains no values.
type EgressProblem struct {
	Index int
	What  string
}

// ReadEgress parses the entries of a container and returns their errors.
func ReadEgress(entries []Egress) (all []Destination, problems []EgressProblem) {
	ports := 0
	for i, entry := range entries {
		d, err := entry.destination()
		if err == nil {
			ports += len(d.Ports)
			err = d.unlike(all)
			all = append(all, d)
		}
		if err != nil {
			problems = append(problems, EgressProblem{i, err.Error()})
		}
	}
	if ports > maxEgressPorts {
		problems = append(problems, EgressProblem{-1, fmt.Sprintf("has %d ports together; at most %d are possible", ports, maxEgressPorts)})
	}
	return all, problems
}

// unlike returns an error if others already contain the destination.
func (d Destination) unlike(others []Destination) error {
	for _, other := range others {
		if other.Name != d.Name || other.Range != d.Range {
			continue
		}
		for _, port := range d.Ports {
			if slices.Contains(other.Ports, port) {
				return fmt.Errorf("appears twice, with port %d", port)
			}
		}
	}
	return nil
}

var errNoHostPort = errors.New("must be HOST:PORT, IP:PORT or CIDR:PORT, without a URL's scheme and path")

func (e Egress) destination() (Destination, error) {
	var d Destination
	if strings.Contains(e.Host, "://") {
		return d, errNoHostPort
	}
	host, port, err := splitPort(e.Host)
	if err != nil {
		return d, err
	}
	if d.Ports, err = e.ports(port); err != nil {
		return d, err
	}
	if d.Name, d.Range, err = readHost(host); err != nil || e.Address == "" {
		return d, err
	}
	if d.Name == "" {
		return d, errors.New("has an IP address as host; address needs a host name")
	}
	at, err := netip.ParseAddrPort(e.Address)
	if err != nil {
		var addr netip.Addr
		addr, err = netip.ParseAddr(e.Address)
		at = netip.AddrPortFrom(addr, 0)
	}
	if err != nil || at.Addr().Zone() != "" {
		return d, errors.New("has an address that is neither IP nor IP:PORT")
	}
	d.Address, d.Port = at.Addr().Unmap(), int(at.Port())
	return d, nil
}

// ports returns the ports of an entry. port is the port written after its host, or 0.
func (e Egress) ports(port int) ([]int, error) {
	switch {
	case port != 0 && e.Ports != nil:
		return nil, errors.New("has both ports and a port in host; remove one of them")
	case port != 0:
		return []int{port}, nil
	case e.Ports == nil:
		return []int{443, 80}, nil
	case len(e.Ports) == 0:
		return nil, errors.New("has no ports; name one, or leave ports out")
	}
	for i, port := range e.Ports {
		switch {
		case port < 1 || port > 65535:
			return nil, errors.New("has a port that is not between 1 and 65535")
		case slices.Contains(e.Ports[:i], port):
			return nil, fmt.Errorf("names port %d twice", port)
		}
	}
	return e.Ports, nil
}

// splitPort splits a host from its port, which is 0 if there is none.
func splitPort(s string) (host string, port int, err error) {
	if bare, ok := strings.CutPrefix(s, "["); ok {
		inside, after, closed := strings.Cut(bare, "]")
		switch {
		case !closed || !strings.Contains(inside, ":"):
			return "", 0, errors.New("has brackets that hold no IPv6 address")
		case after == "":
			return inside, 0, nil
		}
		host, s = inside, after
	} else if strings.Count(s, ":") == 1 {
		host, _, _ = strings.Cut(s, ":")
		s = s[len(host):]
	} else {
		return s, 0, nil
	}
	digits := strings.TrimPrefix(s, ":")
	port, err = strconv.Atoi(digits)
	if err != nil || port < 1 || port > 65535 || strconv.Itoa(port) != digits || s == digits {
		return "", 0, errors.New("has a port that is not between 1 and 65535")
	}
	return host, port, nil
}

// readHost returns a name in lower case, or a range of addresses.
func readHost(host string) (string, netip.Prefix, error) {
	var prefix netip.Prefix
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" && !addr.Is4In6() {
		return "", netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if strings.ContainsAny(host, "/:%") {
		prefix, err := netip.ParsePrefix(host)
		switch {
		case err != nil || prefix.Addr().Is4In6():
			return "", prefix, errNoHostPort
		case prefix.Masked() != prefix:
			return "", prefix, errors.New("is a range of addresses with bits beyond its prefix")
		}
		return "", prefix, nil
	}
	below, wild := strings.CutPrefix(host, "*.")
	below, err := ReadHostName(below)
	if err != nil {
		return "", prefix, err
	}
	if wild && !strings.Contains(below, ".") {
		return "", prefix, errors.New("allows every name of a top-level domain; name one below it, as in *.example.com")
	}
	if slices.Contains(ReservedNames(), below) || strings.HasSuffix(below, ".localhost") {
		return "", prefix, errors.New("is a name that the trial itself has; choose another name, with address")
	}
	if wild {
		below = "*." + below
	}
	return below, prefix, nil
}

// ReadHostName returns a host name in DNS (RFC 1123, section 2.1) in lower case. It rejects names that
// resolvers may interpret as addresses.
func ReadHostName(text string) (name string, err error) {
	name = strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if !labelPattern.MatchString(label) {
			return "", errors.New("is not a host name; use letters, digits, hyphens and dots between them, and xn-- for others (IDNA)")
		}
	}
	last := labels[len(labels)-1]
	if len(name) > 253 {
		return "", errors.New("is longer than a host name may be")
	}
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "", errors.New("is neither a host name nor an IP address in its usual form")
	}
	return name, nil
}

// EgressProxyPort is the port of the runner's HTTP proxy in a container with egress. A
// server cannot listen on it.
const EgressProxyPort = 3128
