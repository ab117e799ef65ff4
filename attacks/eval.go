package attacks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/attacks/part"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
)

const (
	// program is the hostile program in its image.
	program = "/hostile"
	// evil is the server that attacks, and calm one that does not and that nobody calls.
	evil, calm = "evil", "calm"
	// perNeighbour is how many attacks there are to a harmless trial between them.
	perNeighbour = 4
)

// Ground is what an eval is generated for.
type Ground struct {
	Name  string // of the eval
	Image string // of the hostile program
	Aims  string // [probe.Aims] as JSON
	Away  string // URL of hostile remote servers, up to the run's nonce
}

// writeEval writes an eval into dir whose tasks are the trials of the attacks, with
// harmless neighbours between them, and returns the tasks of these.
func (g Ground) writeEval(dir string, attacks []Attack) (neighbours []string, err error) {
	e := g.eval()
	var tasks []eval.Task
	for _, a := range attacks {
		if a.Alone != nil && a.Alone.Eval != nil {
			a.Alone.Eval(g, &e)
		}
		if a.In != "" {
			continue
		}
		if len(tasks)%(perNeighbour+1) == 0 {
			neighbours = append(neighbours, fmt.Sprintf("neighbour-%d", len(neighbours)+1))
			tasks = append(tasks, neighbour(neighbours[len(neighbours)-1]))
		}
		tasks = append(tasks, g.task(a))
	}
	for i, task := range tasks {
		if err := writeJSON(filepath.Join(dir, "tasks", fmt.Sprintf("%03d.yaml", i)), task); err != nil {
			return nil, err
		}
	}
	return neighbours, writeJSON(filepath.Join(dir, "eval.yaml"), e)
}

func (g Ground) eval() eval.Eval {
	env := map[string]string{part.AimsEnv: g.Aims}
	return eval.Eval{
		Name: g.Name,
		Config: eval.Config{
			TrialsPerTask: 1, TimeoutSeconds: 240, Parallel: new(true), Workers: 4, Executor: "command",
			Agent: &eval.Agent{
				Command: program, Args: []string{"agent"},
				Transcript: &transcript.Source{From: "stdout", Format: transcript.FormatWaza},
			},
			Isolation: eval.Isolation{
				Pull:    "never",
				Subnets: part.Subnets,
				Agent:   eval.AgentContainer{Image: g.Image, Limits: mcpconfig.Limits{Memory: "256m", Disk: "16m"}, MaxOutput: "8m", Env: env},
			},
			MCPServers: map[string]*mcpconfig.Server{
				evil: {Image: g.Image, Command: program, Args: []string{"server", part.Honest}, Env: env, Limits: mcpconfig.Limits{Memory: "256m", Disk: "64m"}},
			},
		},
		Tasks: []string{"tasks/*.yaml"},
	}
}

// task returns the trial of an attack: the agent gets its name as the prompt.
func (g Ground) task(a Attack) eval.Task {
	t := eval.Task{ID: a.Name, Inputs: eval.Inputs{Prompt: a.Name}}
	switch a.As {
	case Server, Both:
		t.MCPServers = map[string]*mcpconfig.Server{evil: {Args: []string{"server", a.Name}}}
	case Grader:
		t.Inputs.Prompt = part.Honest
		t.Graders = []eval.Grader{g.Program("program", a.Name)}
	}
	if a.As == Server {
		t.Inputs.Prompt = part.Honest
	}
	if a.Task != nil {
		a.Task(g, &t)
	}
	if _, called := t.MCPServers[evil]; !called && a.As == Agent && len(t.MCPServers) > 0 {
		t.MCPServers[evil] = nil // it has others, and each takes its time to start
	}
	return t
}

// besideCalm adds a server that does not attack to a trial.
func besideCalm(g Ground, t *eval.Task) {
	t.MCPServers[calm] = &mcpconfig.Server{
		Image: g.Image, Command: program, Args: []string{"serve", part.Honest}, Type: "http", Port: part.Port, Limits: mcpconfig.Limits{Memory: "256m", Disk: "64m"},
	}
}

// Program returns a grader whose program attacks.
func (g Ground) Program(name, attack string) eval.Grader {
	config, _ := json.Marshal(map[string]any{ // of strings
		"image": g.Image, "command": program, "args": []string{"grader", attack, g.Aims},
	})
	return eval.Grader{Type: "program", Name: name, Config: config}
}

// neighbour returns a trial that passes.
func neighbour(id string) eval.Task {
	return eval.Task{
		ID: id, Inputs: eval.Inputs{Prompt: part.Honest},
		Graders: []eval.Grader{
			{Type: "text", Name: "answer", Config: json.RawMessage(`{"contains": ["you said: hello"]}`)},
			{Type: "mcp_compliance", Name: "one-call", Config: json.RawMessage(`{"server": "evil", "expect_tools_used": ["poke"], "max_tool_errors": 0}`)},
		},
	}
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
