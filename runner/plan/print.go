package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/go-units"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// JSON is the plan as trial.json keeps it.
func (t *Trial) JSON() json.RawMessage {
	data, err := json.Marshal(t)
	if err != nil { // plain data always marshals
		return json.RawMessage(`{}`)
	}
	return data
}

// shownSkills is how many skills of a trial are listed: a repository's may be many.
const shownSkills = 5

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
	if adapted := t.Agent.Adapted; adapted != nil {
		fmt.Fprintf(&b, "              adapter %s, environment %q, files below home %q\n", adapted.Name, slices.Sorted(maps.Keys(adapted.Env)), slices.Sorted(maps.Keys(adapted.Home)))
	}
	if t.Agent.Package != "" {
		fmt.Fprintf(&b, "              package %s\n", t.Agent.describePackage())
	}
	if tells := t.Agent.Tells; tells != nil {
		fmt.Fprintf(&b, "              transcript from %s, format %s\n", tells.From, tells.Format)
	}
	if t.Isolated() {
		fmt.Fprintf(&b, "              %s\n", t.Agent.declaredContainer())
		for _, d := range t.Agent.Egress {
			fmt.Fprintf(&b, "              egress %s\n", d)
		}
		fmt.Fprintf(&b, "              workspace %s on %s, %d file(s)\n", sandbox.WorkspaceDir, t.Workspace, len(t.Files))
	} else {
		fmt.Fprintf(&b, "              a process of this machine; workspace in a temporary directory, %d file(s)\n", len(t.Files))
	}
	if t.Models != nil {
		t.Models.describe(&b)
	}
	for _, r := range t.Repos {
		fmt.Fprintf(&b, "  repository  %s at %s, as %s\n", r.Source, cmp.Or(r.Repo.Commit, "HEAD"), r.Dest)
	}
	for i, s := range t.Skills {
		if i == shownSkills {
			fmt.Fprintf(&b, "              and %d more\n", len(t.Skills)-i)
			break
		}
		fmt.Fprintf(&b, "  skill       %s, %d file(s), at %s/%s\n", s.Name, len(s.Files), t.Agent.SkillsAt, s.Name)
	}
	for _, c := range t.Commands {
		fmt.Fprintf(&b, "  command     %s, a mock with %d response(s)\n", c.Name, len(c.Responses))
	}
	for _, s := range t.Servers {
		s.describe(&b, t.Isolated())
	}
	for _, g := range t.Graders {
		fmt.Fprintf(&b, "  grader      %s (%s)\n", g.Name, g.Type)
		if container, ok := t.GraderContainerOf(g.Name); ok {
			container.describe(&b, t.Isolated())
		}
	}
	describeResponder(&b, t.Agent.Responder)
	t.describeCheckpoints(&b)
	if t.Judge != nil {
		fmt.Fprintf(&b, "  judge       %s\n", t.describeJudge())
	}
	t.Hooks.describe(&b)
	t.describeCanaries(&b)
	t.describeAttack(&b)
	for _, name := range t.NotEnforced {
		fmt.Fprintf(&b, "  no effect   %s\n", name)
	}
	fmt.Fprintf(&b, "  mcp.json    %s\n", t.describeMCPConfig())
	for line := range strings.Lines(t.MCPJSON) {
		fmt.Fprintf(&b, "              %s", line)
	}
	return b.String()
}

func (a Agent) describePackage() string {
	if a.Image == "" {
		return a.Package + ", not resolved yet"
	}
	return a.Package
}

// declaredBox has what stands for an image whose packages are not locked yet.
func (a Agent) declaredContainer() sandbox.Container {
	b := a.Container
	if a.Package != "" && b.Image == "" {
		b.Image = toBeBuilt
	}
	return b
}

// describe tells of a server as the eval has it: variables may stand in it.
func (s Server) describe(b *strings.Builder, isolated bool) {
	line := func(format string, args ...any) { fmt.Fprintf(b, "              "+format+"\n", args...) }
	if s.Mock != nil {
		fmt.Fprintf(b, "  server      %s, a mock with the tools %q\n", s.Name, slices.Sorted(maps.Keys(s.Mock.Tools)))
		return
	}
	fmt.Fprintf(b, "  server      %s, %s\n", s.Name, s.describeCommand())
	if s.Becomes != nil {
		line("becomes %s, environment %q", s.contained().describeCommand(), slices.Sorted(maps.Keys(s.Becomes.Env)))
	}
	if s.Package != "" {
		line("package %s", s.describePackage())
	}
	if s.Pin != nil {
		line("%s", s.describePin())
	}
	switch {
	case s.Remote:
		line("dialled by the runner, headers %q", slices.Sorted(maps.Keys(s.Config.Headers)))
		if len(s.Config.Addresses) > 0 {
			line("its name may lead to %s", strings.Join(s.Config.Addresses, ", "))
		}
	case isolated:
		line("%s", s.declaredContainer())
	default:
		line("a process of this machine, in %s", cmp.Or(directoryOf(s.Config), "the eval's directory"))
	}
	for _, entry := range s.contained().Config.Egress {
		if isolated {
			line("egress %s", entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Config.Secrets)) {
		line("secret %s is %s", name, s.Config.Secrets[name])
	}
	if s.Port != 0 {
		line("speaks %s at port %d, %s", s.Transport, s.Port, s.Path)
	}
	if s.Config.Tools != nil {
		line("the agent sees the tools %q", s.Config.Tools)
	}
	if s.Shared {
		line("one for the whole run")
	}
	line("answers within %s, each request within %s", s.StartupTimeout, s.Timeout)
	for _, dir := range s.contained().Config.Writable {
		line("writable %s", dir)
	}
	for _, f := range s.Files {
		line("file %s, %s", f.Path, units.BytesSize(float64(f.Size())))
	}
	for _, service := range s.Services {
		service.describe(b)
	}
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
	return "bridge: an internal /29 of " + from + " with the agent alone; servers have loopback only"
}

func (t *Trial) describeMCPConfig() string {
	if t.Isolated() {
		return sandbox.MCPConfigPath
	}
	return "in a temporary directory, with addresses on 127.0.0.1 in place of names"
}

// describe tells of a service as the eval has it: variables may stand in it.
func (s Service) describe(b *strings.Builder) {
	server := Server{Container: s.Container, Config: mcpconfig.Server{Image: s.declared.Image, Command: s.declared.Command, Args: s.declared.Args}}
	container := server.declaredContainer()
	container.User = s.declared.User
	fmt.Fprintf(b, "    service   %s, %s\n", s.Name, server.describeCommand())
	fmt.Fprintf(b, "              %s\n", container)
	ready := "its image's health check"
	if !s.Ready.Health {
		ready = fmt.Sprintf("%q", s.declared.Ready.Exec)
	}
	fmt.Fprintf(b, "              ports %v, ready by %s within %s\n", s.Ports, ready, s.Ready.Timeout)
	for _, f := range s.Files {
		fmt.Fprintf(b, "              file %s, %s\n", f.Path, units.BytesSize(float64(f.Size())))
	}
}

func (s Server) describeCommand() string {
	switch c := s.Config; {
	case c.URL != "":
		return "remote, " + c.URL
	case c.Command != "":
		return fmt.Sprintf("command %q", append([]string{c.Command}, c.Args...))
	case len(c.Args) > 0:
		return fmt.Sprintf("the entrypoint of its image with %q", c.Args)
	}
	return "the command of its image"
}

func (s Server) describePackage() string {
	if s.Image == "" {
		return s.Package + ", not resolved yet"
	}
	return s.Package + ", built on " + s.Build.Base
}

func (s Server) describePin() string {
	then := "what is another is told"
	if s.Strict {
		then = "a trial where something is another has no outcome"
	}
	return fmt.Sprintf("pinned, %d entries of its lists: %s", s.Pin.Len(), then)
}

// contained is s with what it comes to in a container as its configuration.
func (s Server) contained() Server {
	if s.Becomes != nil {
		s.Config = *s.Becomes
	}
	return s
}

// declaredBox has its image and its user as the eval names them: variables may
// stand in them.
func (s Server) declaredContainer() sandbox.Container {
	b, c := s.Container, s.contained().Config
	b.Image, b.User = cmp.Or(c.Image, b.Image), cmp.Or(c.User, b.User)
	if s.Package != "" && b.Image == "" {
		b.Image = toBeBuilt
	}
	return b
}

// toBeBuilt stands for an image that has no name yet.
const toBeBuilt = "to be built"
