package runner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/docker/go-units"
)

// JSON is the plan as trial.json keeps it.
func (t *Trial) JSON() json.RawMessage {
	data, err := json.Marshal(t)
	if err != nil { // plain data always marshals
		return json.RawMessage(`{}`)
	}
	return data
}

// String is the plan as a person reads it: network, containers, images, limits
// and mcp.json. It holds no secret.
func (t *Trial) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "trial %s/%d  %s\n", t.Task, t.Number, t.TaskName)
	fmt.Fprintf(&b, "  network     %s\n", t.describeNetwork())
	fmt.Fprintf(&b, "  agent       executor %s, time limit %s\n", t.Agent.Executor, t.Timeout)
	if len(t.Agent.Command) > 0 {
		fmt.Fprintf(&b, "              command %q, prompt by %s\n", t.Agent.Command, t.Agent.PromptBy)
	}
	if t.Isolated() {
		fmt.Fprintf(&b, "              %s\n", t.Agent.Box)
		fmt.Fprintf(&b, "              workspace %s on %s, %d file(s)\n", WorkspaceDir, t.Workspace, len(t.Files))
	} else {
		fmt.Fprintf(&b, "              a process of this machine; workspace in a temporary directory, %d file(s)\n", len(t.Files))
	}
	for _, s := range t.Servers {
		fmt.Fprintf(&b, "  server      %s, %s\n", s.Name, s.describeCommand())
		if t.Isolated() {
			fmt.Fprintf(&b, "              %s\n", s.declaredBox())
		} else if !s.Remote {
			fmt.Fprintf(&b, "              a process of this machine, in %s\n", cmp.Or(directoryOf(s.Config), "the eval's directory"))
		}
		fmt.Fprintf(&b, "              answers within %s, each request within %s\n", s.StartupTimeout, s.Timeout)
		for _, f := range s.Files {
			fmt.Fprintf(&b, "              file %s, %s\n", f.Path, units.BytesSize(float64(f.Size())))
		}
	}
	for _, g := range t.Graders {
		fmt.Fprintf(&b, "  grader      %s (%s)\n", g.Name, g.Type)
	}
	for _, name := range t.NotEnforced {
		fmt.Fprintf(&b, "  no effect   %s\n", name)
	}
	fmt.Fprintf(&b, "  mcp.json    %s\n", t.describeMCPConfig())
	for line := range strings.Lines(t.MCPJSON) {
		fmt.Fprintf(&b, "              %s", line)
	}
	return b.String()
}

func (t *Trial) describeNetwork() string {
	if !t.Isolated() {
		return "none of its own: nothing is isolated"
	}
	if t.Network == "airtight" {
		return "airtight: no network interface but loopback, in any container"
	}
	from := t.Subnets
	if from == "" {
		from = "10.213.0.0/16"
	}
	return "bridge: an internal /29 of " + from + " with the agent and the relay; servers have loopback only"
}

func (t *Trial) describeMCPConfig() string {
	if t.Isolated() {
		return MCPConfigPath
	}
	return "in a temporary directory, with addresses on 127.0.0.1 in place of names"
}

func (s Server) describeCommand() string {
	if s.Config.Command == "" {
		return "the command of its image"
	}
	return fmt.Sprintf("command %q", append([]string{s.Config.Command}, s.Config.Args...))
}

// declaredBox has its image as the eval names it: variables may stand in it.
func (s Server) declaredBox() Box {
	b := s.Box
	b.Image = cmp.Or(s.Config.Image, b.Image)
	return b
}

// String names the image and the limits.
func (b Box) String() string {
	image := b.Image
	if image == "" {
		image = "waza's own"
	}
	user := ""
	if b.User != "" {
		user = ", user " + b.User
	}
	return fmt.Sprintf("image %s%s, cpus %g, memory %s, disk %s, pids %d", image, user, b.CPUs, units.BytesSize(float64(b.Memory)), units.BytesSize(float64(b.Disk)), b.Pids)
}
