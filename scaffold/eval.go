package scaffold

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcpconfig"
)

// File is a file to write; its path is slash-separated and relative to the directory of the eval.
type File struct {
	Path    string
	Content []byte
}

// Server is a server of the eval.
type Server struct {
	Name   string
	Config json.RawMessage    // as under mcp_servers
	Egress []mcpconfig.Egress // in place of what Config has; nil for that
	Tasks  []Task
}

// config returns the server as the eval has it.
func (s Server) config() any {
	if s.Egress == nil {
		return s.Config
	}
	config := orderedMap{}
	for key, value := range jsontext.Members(s.Config) {
		if key != "egress" {
			config.add(key, json.RawMessage(value))
		}
	}
	var hosts []any
	for _, e := range s.Egress {
		if hosts = append(hosts, e); e.Ports == nil && e.Address == "" {
			hosts[len(hosts)-1] = e.Host
		}
	}
	config.add("egress", hosts)
	return config
}

// Eval is what an eval is made of.
type Eval struct {
	Name     string
	Skill    string // that is under evaluation; empty for none
	Executor string
	Model    string // empty for the executor's
	Servers  []Server
}

// Files returns the eval and its tasks.
func (e Eval) Files() ([]File, error) {
	servers := orderedMap{}
	var files []File
	for _, s := range e.Servers {
		servers.add(s.Name, s.config())
		for _, t := range s.Tasks {
			file, err := e.task(s, t)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		file, err := e.lists()
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	config := object("executor", e.Executor)
	if e.Model != "" {
		config.add("model", e.Model)
	}
	config.add("trials_per_task", 1)
	config.add("timeout_seconds", 120)
	config.add("mcp_servers", servers)
	all := object("name", e.Name)
	if e.Skill != "" {
		all.add("skill", e.Skill)
	}
	all.add("config", config)
	all.add("tasks", []string{"tasks/*.yaml"})
	agent := "the agent: script plays each task's script and needs no key"
	if e.Executor != script {
		agent = "the agent; it asks a model, whose key it needs: see docs/agents.md of waza"
	}
	network := "the servers under test, each in a container without a network"
	if slices.ContainsFunc(e.Servers, func(s Server) bool { return s.Egress != nil }) {
		network = "the servers under test, each in a container that reaches only what its egress names"
	}
	if slices.ContainsFunc(e.Servers, func(s Server) bool { return strings.Contains(string(s.Config), `"url":`) }) {
		network += "; one with a url runs elsewhere"
	}
	content, err := YAML(all, Comments{
		"":                       "Run it with:   waza run --isolate eval.yaml\nCheck it with: waza check",
		"config.executor":        agent,
		"config.trials_per_task": "how often each task is run; more for agents that ask models, which do not answer alike",
		"config.mcp_servers":     network,
		"tasks":                  "one file for each task; add one with: waza new task NAME",
	})
	return append([]File{{"eval.yaml", content}}, files...), err
}

// script is the executor whose tasks have scripts.
const script = "script"

// task returns the file of a task that calls a tool.
func (e Eval) task(s Server, t Task) (File, error) {
	id := string(t.Kind) + "-" + strings.ToLower(strings.Trim(t.Tool, "._-"))
	if len(e.Servers) > 1 {
		id = s.Name + "-" + id
	}
	id = strings.Trim(id[:min(len(id), 60)], "._-")
	call := fmt.Sprintf("Call the tool %s of the server %s with the arguments %s", t.Tool, s.Name, t.Arguments)
	prompt, comments := call+", and say what it answers, word for word.", Comments{}
	switch t.Kind {
	case Read:
		comments[""] = "A tool that only reads: its answer has to be right."
	case Write:
		comments[""] = "A tool that may change something. Each trial has a server of its own, so nothing stays."
	case Error:
		comments[""] = "A call that has to be refused, for it lacks what the tool requires."
		prompt = call + ", exactly so although arguments are missing, and say what it answers, word for word."
	}
	task := object("id", id, "inputs", object("prompt", prompt))
	grader := object("server", s.Name)
	if t.Kind == Error {
		grader.add("errors", object("expected", []any{object("tool", t.Tool)}))
	} else {
		grader.add("expect_tools_used", []string{t.Tool})
	}
	grader.add("max_tool_errors", 0)
	graders := []any{object("type", "mcp_compliance", "name", "called", "config", grader)}
	comments["graders"] = "called: what crossed the wire, whatever the agent says of it"
	if t.Excerpt != "" {
		graders = append(graders, object("type", "text", "name", "answer", "config", object("contains", []string{t.Excerpt})))
		comments["graders"] += "\nanswer: what the agent says in the end; change it to what is right"
	}
	task.add("graders", graders)
	step := object("server", s.Name, "tool", t.Tool, "arguments", t.Arguments)
	if t.Kind == Error {
		step.add("expect", string(t.Outcome))
	}
	comments["script"] = "what executor script does; other agents read the prompt"
	task.add("script", []any{
		object("tools", object("server", s.Name)),
		object("call", step, "as", "answer"),
		object("say", "{{ answer.text }}"),
	})
	content, err := YAML(task, comments)
	return File{path.Join("tasks", id+".yaml"), content}, err
}

// lists returns a task for servers of which no call is known to work: the tools of the first are
// listed.
func (e Eval) lists() (File, error) {
	var steps []any
	if len(e.Servers) > 0 {
		steps = []any{object("tools", object("server", e.Servers[0].Name), "as", "tools"), object("say", "{{ len(tools) }} tools: {{ tools }}")}
	}
	task := object(
		"id", "starts",
		"inputs", object("prompt", "List the tools of each MCP server, and say how many there are."),
		"graders", []any{object("type", "text", "name", "answer", "config", object("regex_match", []string{`[1-9]\d* tools`}))},
		"script", steps,
	)
	content, err := YAML(task, Comments{"": "No call of a tool was found to work, so this only sees that the server lists some.\nReplace it by tasks that call its tools: waza new task NAME"})
	return File{"tasks/starts.yaml", content}, err
}

// orderedMap is an object whose members keep their order.
type orderedMap struct {
	keys   []string
	values []any
}

func (m *orderedMap) add(key string, value any) {
	m.keys, m.values = append(m.keys, key), append(m.values, value)
}

// MarshalJSON writes the members in order.
func (m orderedMap) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, key := range m.keys {
		value, err := jsontext.Marshal(m.values[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		name, _ := json.Marshal(key) // a string always marshals
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}

// object is an orderedMap of keys and values in turn.
func object(pairs ...any) orderedMap {
	m := orderedMap{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m.add(pairs[i].(string), pairs[i+1])
	}
	return m
}

// NewTask returns a task that has to be completed: it calls a tool, or lists those of a server, and
// its grader asks for what only a person knows.
func NewTask(id, server, tool string, arguments json.RawMessage) ([]byte, error) {
	steps := []any{}
	switch {
	case tool != "":
		steps = append(steps, object("call", object("server", server, "tool", tool, "arguments", arguments), "as", "answer"), object("say", "{{ answer.text }}"))
	case server != "":
		steps = append(steps, object("tools", object("server", server), "as", "tools"), object("say", "{{ tools }}"))
	default:
		steps = append(steps, object("say", "CHANGE ME: what executor script answers"))
	}
	graders := []any{object("type", "text", "name", "answer", "config", object("contains", []string{"CHANGE ME: what a right answer holds"}))}
	if tool != "" {
		graders = append(graders, object("type", "mcp_compliance", "name", "called", "config", object("server", server, "expect_tools_used", []string{tool}, "max_tool_errors", 0)))
	}
	return YAML(object("id", id, "inputs", object("prompt", "CHANGE ME: what the agent is to do"), "graders", graders, "script", steps), Comments{
		"":        "Run it with: waza run --isolate --task " + id,
		"inputs":  "prompt: what the agent is asked. files: what lies in its workspace, as {path: notes.txt, content: text}.",
		"graders": "what has to hold; docs/graders.md of waza has all kinds",
		"script":  "what executor script does; other agents read the prompt, and a task without a script is for them alone",
	})
}

// graderConfigs are configs to begin with, by the type of the grader.
func graderConfigs() map[string]any {
	return map[string]any{
		"text":            object("contains", []string{"CHANGE ME"}),
		"file":            object("must_exist", []string{"CHANGE-ME.txt"}),
		"mcp_compliance":  object("expect_tools_used", []string{"CHANGE_ME"}, "max_tool_errors", 0),
		"tool_calls":      object("required_tools", []string{"CHANGE_ME"}, "max_calls", 10),
		"tool_constraint": object("reject_tools", []any{object("tool", "CHANGE_ME")}),
		"behavior":        object("max_mcp_calls", 10, "max_duration_ms", 60000),
		"json_schema":     object("schema", object("type", "object", "required", []string{"CHANGE_ME"})),
		"prompt":          object("prompt", "CHANGE ME: what a good answer is"),
	}
}

// NewGrader returns the file of a grader of a type that has to be completed, which an eval refers
// to. It fails for types that need more than a config.
func NewGrader(kind string) ([]byte, error) {
	config, known := graderConfigs()[kind]
	if !known {
		all := slices.Sorted(maps.Keys(graderConfigs()))
		return nil, fmt.Errorf("no grader of type %q is written here, but of %s; docs/graders.md of waza has the others", kind, strings.Join(all, ", "))
	}
	return YAML(object("type", kind, "config", config), Comments{"": "docs/graders.md of waza has what config may hold"})
}
