package sandbox

import "strings"

// Paths in the agent's container as plans, [Sandbox.Put] and [Sandbox.Collect] name
// them. Programs in it get those of its [Layout].
const (
	WorkspaceDir  = "/workspace"
	HomeDir       = "/home/agent"
	MCPConfigPath = "/etc/waza/mcp.json"
	// SkillsDir holds a directory for each skill.
	SkillsDir = HomeDir + "/skills"
	// GuestPath is our own executable.
	GuestPath = "/opt/waza/waza"
)

// ModelHost is the name under which an agent finds its models: each provider's base
// URL is http://model/PROVIDER there.
const ModelHost = "model"

// Layout is where the programs of a container find things.
type Layout struct {
	Workspace string // of the agent's container
	MCPConfig string // the same
	Home      string // what programs find as theirs; empty leaves them the one they have
	Private   string // of the agent's container: what is planned for HomeDir
	Guest     string // our own executable
	// Models is the URL that providers of models are below, where the trial has any; set
	// once [Sandbox.Listen] has returned.
	Models string
}

// ContainerLayout is the layout of every container of an engine.
func ContainerLayout() Layout {
	return Layout{Workspace: WorkspaceDir, MCPConfig: MCPConfigPath, Home: HomeDir, Private: HomeDir, Guest: GuestPath, Models: "http://" + ModelHost}
}

// Ours returns the paths in the agent's container that links of ours in its workspace lead
// to.
func (l Layout) Ours() []string { return []string{l.MCPConfig, l.At(SkillsDir)} }

// At returns the path at which a program finds a planned one.
func (l Layout) At(planned string) string {
	for _, dir := range []struct{ planned, actual string }{
		{WorkspaceDir, l.Workspace}, {HomeDir, l.Private}, {MCPConfigPath, l.MCPConfig}, {GuestPath, l.Guest},
	} {
		if rest, ok := strings.CutPrefix(planned, dir.planned); ok && (rest == "" || rest[0] == '/') {
			return dir.actual + rest
		}
	}
	return planned
}
