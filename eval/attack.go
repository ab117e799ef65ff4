package eval

import (
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// Attack is what somebody else wants of a task's agent, and how that reaches it.
type Attack struct {
	Goal    string      `json:"goal" jsonschema:"what the attacker wants, in one line"`
	Inject  []Injection `json:"inject" jsonschema:"where the agent comes upon the attacker's words"`
	Success []Grader    `json:"success" jsonschema:"what counts as the attack's success: graders that all pass then"`
	Gate    bool        `json:"gate,omitempty" jsonschema:"fail a trial in which the attack succeeds; default false, which reports it beside the verdict"`
}

// Injection is one place of an attacker's words: a file of the workspace, or the results
// of a tool.
type Injection struct {
	File    string  `json:"file,omitempty" jsonschema:"path in the workspace"`
	Content *string `json:"content,omitempty" jsonschema:"what the file holds, which no other does"`
	Append  *string `json:"append,omitempty" jsonschema:"what is added to a file of the task's or of a canary's"`

	Server string `json:"server,omitempty" jsonschema:"server whose tool's results get the text"`
	Tool   string `json:"tool,omitempty" jsonschema:"exact name of the tool"`
	Text   string `json:"text,omitempty" jsonschema:"what is added to each result that is no error, as a text of its own behind the others"`
	Match  string `json:"match,omitempty" jsonschema:"only to results of which some text contains this"`
}

// Bounds of an attack.
const (
	maxInjections   = 100
	maxInjectedText = 64 << 10
)

// ResolvedAttack is an attack whose graders are found.
type ResolvedAttack struct {
	Attack
	Success []evidence.GraderSpec
}

// attack resolves the task's attack; nil where it has none. The files of the task, by
// which paths are taken, are known.
func (r resolver) attack(taken claims, names map[string]string) *ResolvedAttack {
	a, at := r.task.Attack, strictyaml.Path{"attack"}
	if a == nil {
		return nil
	}
	if strings.ContainsAny(a.Goal, "\r\n") {
		r.doc.Problemf(append(slices.Clone(at), "goal"), "attack.goal is one line")
	}
	if len(a.Inject) > maxInjections {
		r.doc.Problemf(append(slices.Clone(at), "inject"), "attack.inject has more than %d entries", maxInjections)
	}
	for i, one := range a.Inject {
		r.checkInjection(one, taken, append(slices.Clone(at), "inject", i))
	}
	g := graders{doc: r.doc, eval: r.loader.eval, seen: names}
	g.add(a.Success, append(slices.Clone(at), "success"), " in this task's attack")
	g.checkServers(r.serverNames())
	return &ResolvedAttack{*a, g.specs}
}

func (r resolver) checkInjection(one Injection, taken claims, at strictyaml.Path) {
	key := func(name string) strictyaml.Path { return append(slices.Clone(at), name) }
	ofTool := one.Server != "" || one.Tool != "" || one.Text != "" || one.Match != ""
	ofFile := one.File != "" || one.Content != nil || one.Append != nil
	switch {
	case ofTool == ofFile:
		r.doc.Problemf(at, "%s is either a file with content or append, or a server and a tool with text", at)
	case ofFile:
		r.checkInjectedFile(one, taken, at)
	case one.Server == "" || one.Tool == "" || one.Text == "":
		r.doc.Problemf(at, "%s needs server, tool and text", at)
	case len(one.Text) > maxInjectedText:
		r.doc.Problemf(key("text"), "%s is longer than %d KiB", key("text"), maxInjectedText>>10)
	case !slices.Contains(r.serverNames(), one.Server):
		r.doc.Problemf(key("server"), "%s is %q, which is no server of this task; %s", key("server"), one.Server, suggest(one.Server, r.serverNames()))
	}
}

func (r resolver) checkInjectedFile(one Injection, taken claims, at strictyaml.Path) {
	at = append(slices.Clone(at), "file")
	clean := path.Clean(one.File)
	switch {
	case (one.Content == nil) == (one.Append == nil):
		r.doc.Problemf(at[:len(at)-1], "%s needs content, or append", at[:len(at)-1])
	case !isInside(one.File) || clean == ".":
		r.doc.Problemf(at, "file %q must be a path in the workspace, relative and without leading out", one.File)
	case one.Append != nil && !taken.appendable[clean]:
		r.doc.Problemf(at, "file %q is none of this task's; append adds to one of inputs.files or of a canary, and content makes a file", one.File)
	case one.Content != nil:
		if other := taken.claim(clean, "another file of this task"); other != "" {
			r.doc.Problemf(at, "file %q is in the way of %s; %s", one.File, other, remedy(clean))
		}
	}
}
