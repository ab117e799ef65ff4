package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
)

// Checking is a request to check an eval without running it.
type Checking struct {
	Eval      string // path of the eval
	Isolated  bool   // run in containers
	AsWritten bool   // let the eval choose Isolated
	// Unwritten returns the first placeholder in a text that the author has yet to replace, or "".
	Unwritten func(text []byte) string

	Host Host
}

// Checked is the result of a check.
type Checked struct {
	Eval     string    `json:"eval"` // path of the eval
	Name     string    `json:"name,omitempty"`
	Executor string    `json:"executor,omitempty"`
	Tasks    int       `json:"tasks"`
	Servers  []string  `json:"servers"`
	Findings []Finding `json:"findings"`
}

// Finding is one error or warning about an eval.
type Finding struct {
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"` // starts at 1; 0 for the whole file
	Column   int      `json:"column,omitempty"`
	Message  string   `json:"message"`
	Excerpt  string   `json:"-"` // lines of the file around the position
}

// Severity is the severity of a finding.
type Severity string

// Severities of findings. A run of the eval fails on every error, on any machine.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Count returns the number of findings with a severity.
func (c Checked) Count(s Severity) (n int) {
	for _, f := range c.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// checker is a check in progress.
type checker struct {
	Checking
	found Checked
	job   *Job
	unset map[string][]string // users of each variable that is not set
	seen  map[string]seen     // what servers without a pin listed before, once looked up
}

// Check reads and plans an eval as a run would, and reports what would go wrong. It starts
// nothing and writes nothing.
func Check(ctx context.Context, q Checking) Checked {
	c := &checker{Checking: q, found: Checked{Eval: q.Eval, Servers: []string{}, Findings: []Finding{}}, unset: map[string][]string{}, seen: map[string]seen{}}
	host := q.Host
	host.Secrets = &secret.Set{} // placeholders are not secret
	host.Notice = func(warnings []*strictyaml.Error) { c.inFiles(SeverityWarning, warnings) }
	host.Lookup = c.lookup
	var err error
	c.job, err = readJob(Request{Choices: Choices{Isolated: q.Isolated, Trials: 1}, AsWritten: q.AsWritten, Eval: q.Eval, HostHooks: true, Host: host})
	if err != nil {
		c.report(SeverityError, err)
		return c.found
	}
	c.found.Name, c.found.Executor, c.found.Tasks = c.job.Eval.Name, c.job.Eval.Config.Executor, len(c.job.Tasks)
	c.found.Servers = c.serverNames()
	c.needs()
	trials := c.plan()
	c.missing(trials)
	for _, t := range c.job.Tasks {
		if c.judges(t) {
			c.broken(t)
		}
		c.tools(t)
		c.unwritten(t)
	}
	c.unused()
	if absent, err := c.absent(ctx, trials); err == nil && c.job.Request.Isolated {
		for _, ref := range absent {
			c.warn(q.Eval, "image %s is not on the engine: a run pulls it first, or fails; build or pull it", ref)
		}
	}
	return c.found
}

func (c *checker) warn(file, format string, args ...any) {
	c.add(Finding{Severity: SeverityWarning, File: file, Message: fmt.Sprintf(format, args...)})
}

// add adds a finding, unless an equal one exists, such as for another task.
func (c *checker) add(f Finding) {
	if !slices.Contains(c.found.Findings, f) {
		c.found.Findings = append(c.found.Findings, f)
	}
}

func (c *checker) inFiles(s Severity, all []*strictyaml.Error) {
	for _, e := range all {
		c.add(Finding{s, e.File, e.Position.Line, e.Position.Column, e.Message, e.Excerpt})
	}
}

// report adds a finding for each line or file error of err.
func (c *checker) report(s Severity, err error) {
	var inFiles strictyaml.Errors
	if errors.As(err, &inFiles) {
		c.inFiles(s, inFiles)
		return
	}
	if file, ok := errors.AsType[*eval.UnreadableError](err); ok {
		c.add(Finding{Severity: s, File: file.Path, Message: file.Err.Error()})
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		c.add(Finding{Severity: s, File: c.Eval, Message: ofTask.ReplaceAllString(line, "")})
	}
}

// ofTask matches the prefix of errors of a plan. It is removed, as most errors are the same for
// all tasks.
var ofTask = regexp.MustCompile(`^task [^ :]+: `)

func (c *checker) serverNames() []string {
	names := map[string]bool{}
	for _, t := range c.job.Tasks {
		for name := range t.Servers {
			names[name] = true
		}
	}
	for _, m := range c.job.Eval.Mocks {
		names[m.Name] = true
	}
	return append([]string{}, slices.Sorted(maps.Keys(names))...)
}

// needs finds the variables that servers need and that are not set.
func (c *checker) needs() {
	need := func(variable, who string) {
		if value, _ := c.Host.Lookup(variable); value == "" && !slices.Contains(c.unset[variable], who) {
			c.unset[variable] = append(c.unset[variable], who)
		}
	}
	for _, t := range c.job.Tasks {
		for _, name := range slices.Sorted(maps.Keys(t.Servers)) {
			who := fmt.Sprintf("server %q", name)
			variables, _ := mcpconfig.Variables(name, t.Servers[name]) // already checked
			for _, v := range variables {
				if !v.HasDefault {
					need(v.Name, who)
				}
			}
			for _, secret := range t.Servers[name].Secrets {
				if secret.Env != "" {
					need(secret.Env, who)
				}
			}
		}
	}
}

// placeholder is the value of variables that are not set, so that everything else can be
// checked.
const placeholder = "not-set-while-checked"

// lookup looks up a variable, with a placeholder if a server needs it and it is not set.
func (c *checker) lookup(name string) (string, bool) {
	if _, isUnset := c.unset[name]; isUnset {
		return placeholder, true
	}
	return c.Host.Lookup(name)
}

// plan plans the eval, without models' API keys if they are missing.
func (c *checker) plan() []*plan.Trial {
	trials, withKeys := c.job.trials()
	if withKeys == nil {
		return trials
	}
	c.job.Request.Keyless = true
	trials, err := c.job.trials()
	if err != nil {
		c.report(SeverityError, err)
		return nil
	}
	c.report(SeverityWarning, withKeys)
	return trials
}

// missing reports variables that are not set, hooks on the host, and judges that cannot be asked.
func (c *checker) missing(trials []*plan.Trial) {
	for _, name := range slices.Sorted(maps.Keys(c.unset)) {
		c.warn(c.Eval, "the variable %s is not set, and %s needs it: set it before a run", name, strings.Join(text.Few(c.unset[name], 5), ", "))
	}
	if hook := c.job.Eval.Hooks.OnHost(); hook != "" {
		c.warn(c.Eval, "%s runs on this machine (host: true): a run needs --allow-host-hooks", hook)
	}
	for _, t := range trials {
		if t.Judge == nil {
			continue
		}
		if _, err := trial.JudgeOf(t, c.Host.Connect)(*t.Judge); err != nil {
			c.warn(c.Eval, "%s", text.FirstLine(err.Error()))
		}
	}
}

// judges warns about graders that cannot tell a good agent from an idle one, and reports whether
// the task's graders fail an agent that does nothing. Tasks with an attack, a trigger test or
// checkpoints are exempt, since doing nothing may be right there.
func (c *checker) judges(t eval.ResolvedTask) bool {
	switch {
	case t.Attack != nil || t.Trigger != nil || len(t.Checkpoints) > 0:
		return false
	case len(t.Graders) == 0:
		c.warn(t.Path, "task %s has no grader: it passes whenever its agent ends without an error; add graders, or expected", t.ID)
		return false
	}
	for _, g := range grading.Empty(t.Graders) {
		c.warn(g.From, "grader %s checks nothing; add a check: waza schema eval lists those of its type", g.Name)
	}
	for g, command := range grading.MissingPrograms(t.Graders) {
		c.warn(g.From, "grader %s runs %s, which is not next to the eval; correct its command, or write /workspace/… for a program that the agent leaves", g.Name, text.Quote(command, 100))
	}
	for g, name := range grading.ForbiddenGlobs(t.Graders) {
		c.warn(g.From, "grader %s forbids tool %s, but forbidden_tools are exact names, and no tool has that one; name each tool, or use reject_tools of tool_constraint", g.Name, text.Quote(name, 100))
	}
	if passes(t, nil, "") {
		c.warn(t.Path, "task %s is passed by an agent that says and does nothing (graders %s): add a grader that asks for a result", t.ID, graderNames(t))
		return false
	}
	return true
}

// passes reports whether all graders of a task pass for an agent that makes calls and prints
// output.
func passes(t eval.ResolvedTask, calls []grading.Imagined, output string) bool {
	verdicts, err := grading.Imagine(t.Graders, slices.Collect(maps.Keys(t.Servers)), calls, output)
	return err == nil && !slices.ContainsFunc(verdicts, func(v evidence.Verdict) bool { return v.Result != evidence.VerdictPass })
}

func graderNames(t eval.ResolvedTask) string {
	var names []string
	for _, g := range t.Graders {
		names = append(names, g.Name)
	}
	return strings.Join(text.Few(names, 5), ", ")
}

// breakage is one way for every tool to be broken.
type breakage struct {
	what, said string
	answer     string
	outcome    evidence.Outcome
}

// breakages returns the ways for tools to be broken that check tries.
func breakages() []breakage {
	return []breakage{
		{"answers [] to every call", "[]", `{"result":{"content":[{"type":"text","text":"[]"}]}}`, evidence.OutcomeOK},
		{"answers every call with an error", "failed", `{"result":{"isError":true,"content":[{"type":"text","text":"failed"}]}}`, evidence.OutcomeToolError},
		{"fails in every call", "internal error", `{"error":{"code":-32603,"message":"internal error"}}`, evidence.OutcomeProtocolError},
		{"is gone", "unknown tool", `{"error":{"code":-32602,"message":"unknown tool"}}`, evidence.OutcomeProtocolError},
	}
}

// broken warns about a task that passes although its tools are broken. It grades an imagined agent
// that makes the script's calls, or without a script one call of each tool that graders name, and
// repeats their answers. A script that does not expect an answer ends the trial there, so the task
// does not pass.
func (c *checker) broken(t eval.ResolvedTask) {
	acts := eval.ReadScriptActs(t.Script)
	if len(t.Script) == 0 {
		for _, tool := range grading.NamedTools(t.Graders) {
			acts.Calls = append(acts.Calls, eval.ScriptCall{ToolRef: tool, Arguments: json.RawMessage("{}")})
		}
	}
	if len(acts.Calls) == 0 {
		return
	}
	for _, b := range breakages() {
		var calls []grading.Imagined
		ends := false
		for _, call := range acts.Calls {
			ends = ends || !call.Expects(b.outcome)
			calls = append(calls, grading.Imagined{ToolRef: call.ToolRef, Arguments: call.Arguments, Answer: json.RawMessage(b.answer)})
		}
		if scripted := c.job.Eval.Config.Executor == evidence.ExecutorScript; scripted && ends {
			continue
		}
		if passes(t, calls, acts.Said(b.said)) {
			add := "add a grader that asks for a part of the right answer"
			if b.outcome != evidence.OutcomeOK {
				add = "add a call that has to be answered, and a grader that asks for a part of its answer"
			}
			c.warn(t.Path, "task %s is passed by a tool that %s (graders %s): %s", t.ID, b.what, graderNames(t), add)
			return
		}
	}
}

// tools warns about tools that a task's script calls or that its graders name and that the server
// does not list.
func (c *checker) tools(t eval.ResolvedTask) {
	for _, called := range scriptCalls(t.Script) {
		c.tool(t.Path, called)
	}
	for i, g := range t.Graders {
		for _, named := range grading.NamedTools(t.Graders[i : i+1]) {
			c.tool(g.From, named)
		}
	}
}

// tool warns about a tool, which a file names, that is not in the server's pinned catalog in
// waza.lock or, without one, in what it listed when it was last started.
func (c *checker) tool(file string, named evidence.ToolRef) {
	if named.Tool == "" {
		return
	}
	if pin := c.job.lock.Pin(named.Server); pin != nil {
		listed := pin.Lists[catalog.Tools]
		if _, known := listed[named.Tool]; !known {
			c.warn(file, "there is no tool %q of server %q in %s, which has what the server lists; %s", named.Tool, named.Server, images.LockName, strictyaml.Suggest(named.Tool, slices.Collect(maps.Keys(listed))))
		}
		return
	}
	last, known := c.seen[named.Server]
	if !known {
		last = lastSeen(c.Eval, c.job.Eval.Name, named.Server)
		c.seen[named.Server] = last
	}
	if len(last.tools) > 0 && !slices.Contains(last.tools, named.Tool) {
		c.warn(file, "server %q listed no tool %q when it was last started, in %s; %s", named.Server, named.Tool, last.dir, strictyaml.Suggest(named.Tool, last.tools))
	}
}

// unwritten warns about placeholders left in a task, and about graders elsewhere.
func (c *checker) unwritten(t eval.ResolvedTask) {
	mark := cmp.Or(c.Unwritten([]byte(t.Prompt)), c.Unwritten(t.Script))
	for _, g := range t.Graders {
		left := c.Unwritten(g.Config)
		if g.From == t.Path {
			mark = cmp.Or(mark, left)
		} else if left != "" {
			c.warn(g.From, "grader %s has %s: replace it", g.Name, left)
		}
	}
	if mark != "" {
		c.warn(t.Path, "task %s has %s in its prompt, its script or its graders: replace it", t.ID, mark)
	}
}

// unused warns about servers that no task's script calls and no grader refers to, if every task
// has a script.
func (c *checker) unused() {
	used := map[string]bool{}
	for _, t := range c.job.Tasks {
		if len(t.Script) == 0 {
			return
		}
		for _, called := range scriptCalls(t.Script) {
			used[called.Server] = true
		}
		for _, name := range grading.NamedServers(t.Graders) {
			used[name] = true
		}
	}
	for _, name := range c.found.Servers {
		if !used[name] {
			c.warn(c.Eval, "server %q is never used: no task's script calls it and no grader is about it, but every trial starts it", name)
		}
	}
}

// absent returns the images that the engine lacks and that a run does not build. Without an engine
// it returns none.
func (c *checker) absent(ctx context.Context, trials []*plan.Trial) ([]string, error) {
	var refs []string
	for _, need := range plan.NeededImages(trials) {
		if need.Image != "" && !need.Built && !strings.Contains(need.Image, placeholder) {
			refs = append(refs, need.Image)
		}
	}
	if c.Host.Absent == nil || len(refs) == 0 {
		return nil, nil
	}
	return c.Host.Absent(ctx, refs)
}

// scriptCalls returns the tools that a script calls, and the servers whose tools it lists.
// Names that contain expressions are left out.
func scriptCalls(script json.RawMessage) (all []evidence.ToolRef) {
	for _, called := range eval.ScriptCalls(script) {
		if !strings.Contains(called.Server+called.Tool, "{{") {
			all = append(all, called)
		}
	}
	return all
}
