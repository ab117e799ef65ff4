package mcpconfig

import (
	"maps"
	"slices"
	"strconv"
)

// Service is a container that a server needs, such as a database. Only the server can connect to it, by the
// name of the service. The service itself cannot connect to anything, not even to other services of the
// server.
type Service struct {
	Image    string            `json:"image,omitempty" jsonschema:"container image of the service; required without build"`
	Build    *Build            `json:"build,omitempty" jsonschema:"source to build the image from: a directory or a mapping"`
	Command  string            `json:"command,omitempty" jsonschema:"program to run, which must stay in the foreground; default the image's command"`
	Args     []string          `json:"args,omitempty" jsonschema:"arguments of command"`
	Env      map[string]string `json:"env,omitempty" jsonschema:"environment variables of the service and of ready.exec"`
	User     string            `json:"user,omitempty" jsonschema:"as of servers"`
	Writable []string          `json:"writable,omitempty" jsonschema:"directories of the container that the service may write to, in addition to /tmp and home; empty at the start, and in memory"`
	Files    map[string]string `json:"files,omitempty" jsonschema:"files and directories to copy in before it starts, as of servers"`
	Ports    []int             `json:"ports,omitempty" min:"1" max:"65535" jsonschema:"TCP ports that the service listens on in its container, other than the server's own port; required"`
	Ready    *Ready            `json:"ready,omitempty" jsonschema:"how to check that the service is ready: exec or health; required"`

	Limits
}

// Ready defines when a service is ready: by exactly one of Exec and Health.
type Ready struct {
	Exec    []string `json:"exec,omitempty" jsonschema:"program and arguments to run in the service's container again and again, until it exits with 0"`
	Health  bool     `json:"health,omitempty" jsonschema:"true to wait until the image's HEALTHCHECK reports healthy"`
	Timeout float64  `json:"timeout,omitempty" over:"0" max:"86400" jsonschema:"seconds within which the service must be ready; default 60"`
}

// MaxServices is the maximum number of services of a server: each has an address in 127.0.2.0/24 in its
// server's container.
const MaxServices = 254

// services checks that each service of s can be started and reached.
func (f *findings) services(s Server) {
	if len(s.Services) > MaxServices {
		f.invalid("services", "services: a server has at most %d", MaxServices)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		at := "services." + name
		f.serviceName(at, name)
		service := s.Services[name]
		if service == nil {
			f.invalid(at, "%s: there is nothing to remove it from; give it an image or a build", at)
			continue
		}
		f.program(at, *service)
		f.container(at+".", containerOf{service.Image, service.User, service.Writable, service.Files, service.Limits})
		f.ports(at+".ports", service.Ports, s.Port)
		f.ready(at+".ready", service.Ready)
	}
}

func (f *findings) serviceName(at, name string) {
	switch {
	case name == f.server || slices.Contains(ReservedNames(), name):
		f.invalid(at, "%s: the name is taken; choose another", at)
	case !labelPattern.MatchString(name):
		f.invalid(at, "%s: %q is not a host name; use at most 63 lowercase letters, digits and hyphens between them", at, name)
	}
}

func (f *findings) program(at string, s Service) {
	if s.Image == "" && s.Build == nil {
		f.invalid(at, "%s needs an image or a build", at)
	}
	f.build(at+".", s.Image, s.Build)
	if s.Command == "" && s.Args != nil {
		f.invalid(at+".args", "%s.args need a command; without one the image's own command is run", at)
	}
}

// ports checks that a server can reach each port at the service's address. The server's own port is rejected:
// a server that listens on all of its addresses could not open it.
func (f *findings) ports(at string, ports []int, own int) {
	if len(ports) == 0 {
		f.invalid(at, "%s: name at least one port that the service listens on", at)
	}
	for i, port := range ports {
		switch {
		case slices.Contains(ports[:i], port):
			f.add(at, strconv.Itoa(i), "%s: %d appears twice", at, port)
		case port == own && own != 0:
			f.add(at, strconv.Itoa(i), "%s: %d is the port of the server itself; have one of the two listen on another", at, port)
		}
	}
}

func (f *findings) ready(at string, r *Ready) {
	if r == nil || r.Health == (len(r.Exec) > 0) {
		f.invalid(at, "%s: give either exec, a command that succeeds once the service is ready, or health: true, for the image's own HEALTHCHECK", at)
		return
	}
	if len(r.Exec) > 0 && r.Exec[0] == "" {
		f.add(at+".exec", "0", "%s.exec[0] must not be empty", at)
	}
}
