package plan

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// planLocal takes out of a plan what only containers have. Of the agent's container the
// size of the workspace stays: it bounds what is collected.
func (t *Trial) planLocal(isolation eval.Isolation, canaries bool) {
	t.Network, t.Subnets, t.Runtime, t.Workspace = NetworkNone, "", "", "directory"
	t.Agent.Container = sandbox.Container{Disk: t.Agent.Disk}
	t.Agent.Egress, t.EgressLimits = nil, egress.Limits{}
	t.NotEnforced = notEnforcedOf(isolation)
	if canaries {
		t.NotEnforced = append(t.NotEnforced, "config.canaries in DNS names and egress")
	}
}

// notEnforcedOf names what of config.isolation processes do not have.
func notEnforcedOf(iso eval.Isolation) []string {
	var names []string
	for _, key := range []struct {
		name string
		set  bool
	}{
		{"network", iso.Network != ""}, {"image", iso.Image != ""}, {"pull", iso.Pull != ""}, {"npm_image", iso.NPMImage != ""}, {"pypi_image", iso.PyPIImage != ""}, {"server_image", iso.ServerImage != ""}, {"runtime", iso.Runtime != ""},
		{"subnets", iso.Subnets != ""}, {"pins", iso.Pins != ""}, {"workspace", iso.Workspace != ""},
		{"agent.image", iso.Agent.Image != ""}, {"agent.user", iso.Agent.User != ""}, {"agent.cpus", iso.Agent.CPUs != 0},
		{"agent.memory", iso.Agent.Memory != ""}, {"agent.pids", iso.Agent.Pids != 0}, {"agent.disk", iso.Agent.Disk != ""},
		{"agent.scratch", iso.Agent.Scratch != ""}, {"agent.open_files", iso.Agent.OpenFiles != 0},
		{"agent.egress", iso.Agent.Egress != nil}, {"egress_limits", iso.EgressLimits != eval.EgressLimits{}},
	} {
		if key.set {
			names = append(names, "config.isolation."+key.name)
		}
	}
	return names
}

// notEnforced names what of a server processes do not have.
func notEnforced(s Server) (names []string) {
	if s.Config.Image != "" {
		names = append(names, fmt.Sprintf("image of server %q", s.Name))
	}
	if s.Config.Egress != nil {
		names = append(names, fmt.Sprintf("egress of server %q", s.Name))
	}
	return names
}

// onThisMachine is a server as a process: its program and its directory are
// relative to the eval's, where they are relative at all. A program without a
// path is looked up when it is started.
func (s Server) onThisMachine(evalDir string) (Server, error) {
	s.Container, s.Egress = sandbox.Container{}, nil
	dir, err := filepath.Abs(evalDir)
	if err != nil || s.Remote {
		return s, err
	}
	beside := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	s.Expanded.Cwd, s.Expanded.WorkingDir = beside(directoryOf(s.Expanded)), ""
	if strings.Contains(s.Expanded.Command, "/") {
		s.Expanded.Command = beside(s.Expanded.Command)
	}
	return s, nil
}

func directoryOf(config mcpconfig.Server) string {
	if config.Cwd != "" {
		return config.Cwd
	}
	return config.WorkingDir
}

// Program is what a server on processes is started with, before anything is; its
// Args are empty where it is none of ours to start.
func (s Server) Program() (command, dir string, env []string) {
	p := serverProcess(s.Expanded, "")
	if s.Remote || len(p.Args) == 0 {
		return "", "", nil
	}
	return p.Args[0], p.Dir, p.Env
}

// NotEnforced names, once each, what the trials' eval asks for and processes do
// not have.
func NotEnforced(trials []*Trial) []string {
	var names []string
	for _, t := range trials {
		for _, name := range t.NotEnforced {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
