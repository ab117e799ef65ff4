package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/go-units"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// shownSkills is how many skills of a trial are listed.
const shownSkills = 5

// printer formats a plan for people: entries with lines below them.
type printer struct{ strings.Builder }

func (p *printer) entry(name, format string, args ...any) {
	p.write("  %-10s  "+format, append([]any{name}, args...)...)
}

func (p *printer) line(format string, args ...any) { p.write("              "+format, args...) }

// write writes exactly one line, whatever the arguments contain.
func (p *printer) write(format string, args ...any) {
	p.WriteString(text.Inert(fmt.Sprintf(format, args...)) + "\n")
}

// part writes a line for a part of the preceding entry.
func (p *printer) part(name, format string, args ...any) {
	p.write("    %-8s  "+format, append([]any{name}, args...)...)
}

func (p *printer) files(files []File) {
	for _, f := range files {
		p.line("file %s, %s", f.Path, units.BytesSize(float64(f.Size())))
	}
}

// printed returns a trial as [Trial.String] does.
func printed(t *Trial) string {
	p := new(printer)
	p.write("trial %s/%d  %s", t.Task, t.Number, t.TaskName)
	p.entry("network", "%s", describeNetwork(t))
	p.entry("agent", "executor %s, time limit %s", t.Agent.Executor, t.Timeout)
	p.agent(t)
	if t.Models != nil {
		p.models(t.Models)
	}
	for _, r := range t.Repos {
		p.entry("repository", "%s at %s, as %s", r.Source, cmp.Or(r.Repo.Commit, "HEAD"), r.Dest)
	}
	for i, s := range t.Skills {
		if i == shownSkills {
			p.line("and %d more", len(t.Skills)-i)
			break
		}
		p.entry("skill", "%s, %s, at %s/%s", s.Name, text.Count(len(s.Files), "file"), t.Agent.SkillsAt, s.Name)
	}
	for _, c := range t.Commands {
		p.entry("command", "%s, a mock with %s", c.Name, text.Count(len(c.Responses), "response"))
	}
	for _, s := range t.Servers {
		p.server(s, t.Isolated())
	}
	kinds := t.Answers.Kinds()
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		p.entry("answers", "to %s of %s", strings.Join(kinds[name], ", "), name)
	}
	for _, g := range t.Graders {
		p.entry("grader", "%s (%s)", g.Name, g.Type)
		if container, ok := t.GraderContainerOf(g.Name); ok {
			p.graderContainer(container, t.Isolated())
		}
	}
	if r := t.Agent.Responder; r != nil {
		p.entry("responder", "%s, up to %d replies", r.Model, r.MaxFollowups)
	}
	for _, c := range t.Checkpoints {
		then := ""
		if c.Stop {
			then = ", which has to pass"
		}
		p.entry("checkpoint", "after turn %d%s", c.AfterTurn, then)
		for _, g := range c.Graders {
			p.part("grader", "%s (%s)", g.Name, g.Type)
		}
	}
	if j := t.Judge; j != nil { // the key is not part of a plan
		model := cmp.Or(j.Override, j.Model, "the graders' models")
		p.entry("judge", "%s at %s, %s, an answer within %ds", model, j.BaseURL, describeKey(j.APIKeyEnv), j.TimeoutSeconds)
	}
	p.hooks("before", t.Hooks.Before)
	p.hooks("after", t.Hooks.After)
	p.canaries(t.Canaries)
	if t.Attack != nil {
		p.attack(t.Attack)
	}
	for _, f := range t.Faults {
		p.entry("fault", "%s", f)
	}
	for _, name := range t.NotEnforced {
		p.entry("no effect", "%s", name)
	}
	p.entry("mcp.json", "%s", describeMCPConfig(t))
	for line := range strings.Lines(t.MCPJSON) {
		fmt.Fprintf(p, "              %s", line)
	}
	return p.Builder.String()
}

func (p *printer) agent(t *Trial) {
	a := t.Agent
	if len(a.Command) > 0 {
		p.line("command %q, prompt by %s", a.Command, a.PromptBy)
	}
	if adapted := a.Adapted; adapted != nil {
		p.line("adapter %s, environment %q, files below home %q", adapted.Name, slices.Sorted(maps.Keys(adapted.Env)), slices.Sorted(maps.Keys(adapted.Home)))
	}
	if a.Package != "" {
		unresolved := ""
		if a.Image == "" {
			unresolved = ", not resolved yet"
			a.Image = toBeBuilt
		}
		p.line("package %s%s", a.Package, unresolved)
	}
	if from := a.Events; from != nil {
		p.line("transcript from %s, format %s", from.From, from.Format)
	}
	if !t.Isolated() {
		p.line("a process of this machine; workspace in a temporary directory, %s", text.Count(len(t.Files), "file"))
		return
	}
	p.line("%s", a.Container)
	for _, d := range a.Egress {
		p.line("egress %s", d)
	}
	p.line("workspace %s on %s, %s", sandbox.WorkspaceDir, t.Workspace, text.Count(len(t.Files), "file"))
}

// toBeBuilt is printed for an image that has no name yet.
const toBeBuilt = "to be built"

func describeKey(variable string) string {
	if variable == "" {
		return "without a key"
	}
	return "the key in $" + variable
}

func (p *printer) models(m *Models) {
	p.entry("models", "%s of provider %s", cmp.Or(m.Model, "any model"), m.Provider)
	for _, provider := range m.Providers {
		p.line("http://%s/%s is %s", sandbox.ModelHost, provider.Name, provider.describe())
	}
	p.line("at most %s", describeModelLimits(m.Limits))
}

func (p Provider) describe() string {
	switch {
	case p.Live:
		p.Played, p.Live = false, false
		return "played from the cassette, and asked what that has no answer to: " + p.describe()
	case p.Played:
		return "played from the cassette"
	case p.Script != "":
		return "the script " + p.Script
	}
	text := fmt.Sprintf("%s, %s API, %s", p.BaseURL, p.Kind, describeKey(p.APIKeyEnv))
	if len(p.Headers) > 0 {
		text += fmt.Sprintf(", headers %q", p.Headers)
	}
	return text
}

func describeModelLimits(l eval.ModelLimits) string {
	text := fmt.Sprintf("%d requests", l.Requests)
	if l.Tokens > 0 {
		text += fmt.Sprintf(", %d tokens", l.Tokens)
	}
	if l.Cost > 0 {
		text += fmt.Sprintf(", %g US dollars", l.Cost)
	}
	if l.Seconds > 0 {
		text += fmt.Sprintf(", %d seconds", l.Seconds)
	}
	return text
}

// server writes a server as in the eval, with variables unexpanded.
func (p *printer) server(s Server, isolated bool) {
	switch {
	case s.Live:
		p.entry("server", "%s, played from the cassette, and asked what that has no answer to", s.Name)
	case s.Mock.IsPlayed():
		p.entry("server", "%s, played from the cassette", s.Name)
		return
	case s.Mock != nil:
		p.entry("server", "%s, a mock with the tools %q", s.Name, slices.Sorted(maps.Keys(s.Mock.Tools)))
		return
	}
	p.entry("server", "%s, %s", s.Name, describeCommand(s.Config))
	contained := s.Config // as it runs in a container
	if s.Becomes != nil {
		contained = *s.Becomes
		p.line("becomes %s, environment %q", describeCommand(contained), slices.Sorted(maps.Keys(contained.Env)))
	}
	p.source(s.Source)
	switch {
	case s.Package == "":
	case s.Image == "":
		p.line("package %s, not resolved yet", s.Package)
	default:
		p.line("package %s, built on %s", s.Package, s.Build.Base)
	}
	if s.Pin != nil {
		then := "differences are reported"
		if s.Strict {
			then = "a trial has no outcome if it differs"
		}
		p.line("pinned, %d entries of its lists: %s", s.Pin.Len(), then)
	}
	switch {
	case s.Remote:
		p.line("dialled by the runner, headers %q", slices.Sorted(maps.Keys(s.Config.Headers)))
		if len(s.Config.Addresses) > 0 {
			p.line("its name may lead to %s", strings.Join(s.Config.Addresses, ", "))
		}
	case isolated:
		container := s.Container
		container.Image, container.User = cmp.Or(contained.Image, container.Image), cmp.Or(contained.User, container.User)
		if s.Package != "" {
			container.Image = cmp.Or(s.Image, toBeBuilt)
		}
		p.line("%s", container)
	default:
		p.line("a process of this machine, in %s", cmp.Or(s.Config.Cwd, "the eval's directory"))
	}
	for _, entry := range contained.Egress {
		if isolated {
			p.line("egress %s", entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Config.Secrets)) {
		p.line("secret %s is %s", name, s.Config.Secrets[name])
	}
	if s.Port != 0 {
		p.line("speaks %s at port %d, %s", s.Transport, s.Port, s.Path)
	}
	if s.Config.Tools != nil {
		p.line("the agent sees the tools %q", s.Config.Tools)
	}
	if s.Shared {
		p.line("one for the whole run")
	}
	p.line("answers within %s, each request within %s", s.StartupTimeout, s.Timeout)
	for _, dir := range contained.Writable {
		p.line("writable %s", dir)
	}
	p.files(s.Files)
	for _, service := range s.Services {
		p.service(service)
	}
}

func (p *printer) source(s *images.Source) {
	if s != nil {
		p.line("build of %s, %s", s, s.How())
	}
}

// service writes a service as in the eval, with variables unexpanded.
func (p *printer) service(s Service) {
	container, declared := s.Container, s.declared
	container.Image, container.User = cmp.Or(declared.Image, container.Image), declared.User
	p.part("service", "%s, %s", s.Name, describeCommand(mcpconfig.Server{Command: declared.Command, Args: declared.Args}))
	p.source(s.Source)
	p.line("%s", container)
	ready := "its image's health check"
	if !s.Ready.Health {
		ready = fmt.Sprintf("%q", declared.Ready.Exec)
	}
	p.line("ports %v, ready by %s within %s", s.Ports, ready, s.Ready.Timeout)
	p.files(s.Files)
}

func describeCommand(c mcpconfig.Server) string {
	switch {
	case c.URL != "":
		return "remote, " + c.URL
	case c.Command != "":
		return fmt.Sprintf("command %q", append([]string{c.Command}, c.Args...))
	case len(c.Args) > 0:
		return fmt.Sprintf("the entrypoint of its image with %q", c.Args)
	}
	return "the command of its image"
}

func (p *printer) graderContainer(g GraderContainer, isolated bool) {
	p.source(g.Source)
	if isolated {
		p.line("%s, without a network", g.Container)
	} else {
		p.line("a process of this machine, with a copy of the workspace")
	}
	p.line("command %q", g.Command)
	p.files(g.Files)
}

func (p *printer) hooks(when string, hooks []eval.Hook) {
	for _, hook := range hooks {
		where := ""
		if hook.Host {
			where = ", on the host"
		}
		p.entry("hook", "%s the agent%s: %q", when, where, hook.Command)
	}
}

// canaries writes where canaries are planted. Their values are left out, since they differ
// between runs.
func (p *printer) canaries(all []evidence.Canary) {
	for _, c := range all {
		var places []string
		for _, plant := range c.Planted {
			what, where := "file "+plant.File, "the workspace"
			if plant.Env != "" {
				what = "variable " + plant.Env
			}
			if plant.Server != "" {
				where = "server " + plant.Server
			}
			places = append(places, what+" of "+where)
		}
		reach := ""
		if len(c.MayReach) > 0 {
			reach = "; it may reach " + strings.Join(c.MayReach, ", ")
		}
		p.entry("canary", "%s in %s%s", c.Name, cmp.Or(strings.Join(places, ", "), "nothing"), reach)
	}
}

func (p *printer) attack(a *evidence.TaskAttack) {
	withheld := ""
	if a.Withheld {
		withheld = ", withheld"
	}
	p.entry("attack", "%s%s", a.Goal, withheld)
	for _, one := range a.Injections {
		where := "file " + one.File
		if one.Tool != "" {
			where = fmt.Sprintf("results of %s of server %s", one.Tool, one.Server)
		}
		p.line("%d bytes in %s", len(one.Text), where)
	}
	for _, g := range a.Success {
		p.part("success", "%s (%s)", g.Name, g.Type)
	}
}

func describeNetwork(t *Trial) string {
	if !t.Isolated() {
		return "none of its own: nothing is isolated"
	}
	if t.Kubernetes != nil && !t.Kubernetes.RemoveInterface {
		return "airtight: pods reach nothing, by the policy of their namespace"
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

func describeMCPConfig(t *Trial) string {
	if t.Isolated() {
		return sandbox.MCPConfigPath
	}
	return "in a temporary directory, with addresses on 127.0.0.1 in place of names"
}
