package eval

import (
	"maps"
	"net/netip"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// EnvPattern is what the name of an environment variable must match, and
// ReservedEnv what it must not begin with: those the runner sets itself.
const (
	EnvPattern  = `^[A-Za-z_][A-Za-z0-9_]*$`
	ReservedEnv = "WAZA_"
)

var (
	runtimePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	envPattern     = regexp.MustCompile(EnvPattern)
)

// taskNetworkBits is the size of a task network.
const taskNetworkBits = 29

func checkIsolation(doc *strictyaml.Document, iso Isolation) {
	at := func(steps ...any) strictyaml.Path {
		return append(strictyaml.Path{"config", "isolation"}, steps...)
	}
	for _, image := range []struct {
		path  strictyaml.Path
		value string
	}{
		{at("server_image"), iso.ServerImage}, {at("agent", "image"), iso.Agent.Image},
		{at("npm_image"), iso.NPMImage}, {at("pypi_image"), iso.PyPIImage},
	} {
		if strings.ContainsAny(image.value, " \t\r\n\x00") {
			doc.Problemf(image.path, "%s must not hold blanks", image.path)
		}
	}
	if iso.Runtime != "" && !runtimePattern.MatchString(iso.Runtime) {
		doc.Problemf(at("runtime"), "config.isolation.runtime is not a runtime's name")
	}
	if message := subnetProblem(iso.Subnets); message != "" {
		doc.Problemf(at("subnets"), "config.isolation.subnets %s", message)
	}
	checkContainer(doc, at("agent"), iso.Agent)
	if _, err := mcpconfig.ParseSize(iso.EgressLimits.Bytes); iso.EgressLimits.Bytes != "" && err != nil {
		doc.Problemf(at("egress_limits", "bytes"), "%s: %v", at("egress_limits", "bytes"), err)
	}
}

func checkContainer(doc *strictyaml.Document, base strictyaml.Path, c AgentContainer) {
	at := func(step string) strictyaml.Path { return append(slices.Clone(base), step) }
	for _, size := range []struct{ field, value string }{{"memory", c.Memory}, {"disk", c.Disk}, {"scratch", c.Scratch}, {"max_output", c.MaxOutput}} {
		if size.value == "" {
			continue
		}
		if _, err := mcpconfig.ParseSize(size.value); err != nil {
			doc.Problemf(at(size.field), "%s: %v", at(size.field), err)
		}
	}
	if c.User != "" {
		if err := mcpconfig.CheckUser(c.User); err != nil {
			doc.Problemf(at("user"), "%s %v", at("user"), err)
		}
	}
	if c.Workdir != "" && !isInside(c.Workdir) {
		doc.Problemf(at("workdir"), "%s must be a path in the workspace, relative and without leading out", at("workdir"))
	}
	checkEnv(doc, at("env"), c.Env)
	_, problems := mcpconfig.ReadEgress(c.Egress)
	for _, p := range problems {
		entry := at("egress")
		if p.Index >= 0 {
			entry = append(entry, p.Index)
		}
		if p.Index >= 0 && c.Egress[p.Index].Host == "" {
			continue // reported as missing
		}
		doc.Problemf(entry, "%s %s", entry, p.What)
	}
}

// subnetProblem says what is wrong with a range of task networks.
func subnetProblem(s string) string {
	if s == "" {
		return ""
	}
	prefix, err := netip.ParsePrefix(s)
	switch {
	case err != nil || !prefix.Addr().Is4():
		return "must be an IPv4 range in CIDR notation, such as 10.213.0.0/16"
	case prefix.Bits() > taskNetworkBits:
		return "holds no /29, which is what one trial takes; use a wider range"
	case prefix.Masked() != prefix:
		return "has bits beyond its prefix; did you mean " + prefix.Masked().String() + "?"
	}
	return ""
}

func checkEnv(doc *strictyaml.Document, base strictyaml.Path, env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		at := append(slices.Clone(base), name)
		switch {
		case !envPattern.MatchString(name):
			doc.KeyProblemf(at, "%s: %q is not a variable's name", base, name)
		case strings.HasPrefix(name, ReservedEnv):
			doc.KeyProblemf(at, "%s: names that begin with %s are set by waza itself; choose another", at, ReservedEnv)
		case strings.ContainsRune(env[name], 0):
			doc.Problemf(at, "%s must not hold a NUL character", at)
		}
	}
}

// isInside reports whether p is a path in the workspace that does not lead out.
func isInside(p string) bool {
	return filepath.IsLocal(p) && !path.IsAbs(p) && !strings.ContainsAny(p, "\\\x00")
}
