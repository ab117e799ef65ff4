package containers

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/docker/docker/api/types/mount"

	"github.com/waza-isolate/waza/sandbox"
)

// filesDir is where the lease's container has the volume of its run's files.
const filesDir = "/files"

// resolvConf makes the guest the only name server of a container. It answers over TCP.
const resolvConf = "nameserver 127.0.0.1\nsearch .\noptions use-vc\n"

// withFiles returns a container's plan with the files that are its own: an agent's mcp.json
// and, without a network, those that say how names resolve. There the engine's networking
// is left out, which would take 40 % of a start and would write them.
//
// The lease's guest writes the files to the run's volume, and each is mounted by itself,
// read-only. No two containers have one file: a lock on it, or a watch, would tell one
// something of the other.
func (s *trialSandbox) withFiles(ctx context.Context, c containerPlan) (containerPlan, error) {
	files := map[string]string{}
	if c.container == sandbox.Agent {
		files[sandbox.MCPConfigPath] = s.trial.MCPJSON
	}
	if c.host.NetworkMode.IsNone() {
		files["/etc/hosts"] = hostsFile(c.host.ExtraHosts)
		files["/etc/resolv.conf"] = resolvConf
		c.conf.NetworkDisabled = true
		c.host.ExtraHosts, c.host.DNS, c.host.DNSSearch, c.host.DNSOptions = nil, nil, nil, nil
	}
	if len(files) == 0 {
		return c, nil
	}
	var all []layerFile
	for _, at := range sortedKeys(files) {
		name := path.Join(s.dir, fileName(c.container)+"."+path.Base(at))
		all = append(all, layerFile{name: name, text: files[at]})
		c.host.Mounts = append(c.host.Mounts[:len(c.host.Mounts):len(c.host.Mounts)], mount.Mount{
			Type: mount.TypeBind, Source: path.Join(s.files, name), Target: at, ReadOnly: true,
		})
	}
	var content bytes.Buffer
	if err := writeLayer(&content, all); err != nil {
		return c, err
	}
	if err := s.lease.guest.Put(ctx, filesDir, &content); err != nil {
		return c, fmt.Errorf("files of %s: %w", c.name, err)
	}
	return c, nil
}

// hostsFile returns an /etc/hosts (hosts(5)) with entries as the engine takes them,
// NAME:ADDRESS.
func hostsFile(entries []string) string {
	var b strings.Builder
	b.WriteString("127.0.0.1\tlocalhost\n")
	for _, entry := range entries {
		name, at, _ := strings.Cut(entry, ":")
		fmt.Fprintf(&b, "%s\t%s\n", at, name)
	}
	return b.String()
}

// fileName returns a container's name as part of a container's or a file's.
func fileName(ctr string) string { return strings.ReplaceAll(ctr, "/", ".") }
