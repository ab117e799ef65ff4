package attacks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/test/attacks/part"
)

const (
	// program is the path of the hostile program in its image.
	program = "/hostile"
	// evil is the attacking server, and calm one that does not attack and is not called.
	evil, calm = "evil", "calm"
	// perNeighbour is the number of attacks per harmless trial.
	perNeighbour = 4
)

// Ground holds the parameters of a generated eval.
type Ground struct {
	Name  string // eval name
	Image string // image of the hostile program
	Aims  string // [probe.Aims] as JSON
	Away  string // URL of the hostile remote servers, up to the run's nonce
	// Alone leaves out the harmless trials between those of the attacks.
	Alone bool
	// Where changes the eval for the engine that it runs on; nil leaves it as it is.
	Where func(*eval.Eval)
}

// writeEval writes an eval into dir whose tasks are the trials of the attacks, with
// harmless neighbors between them if g is not alone. It returns the tasks of the neighbors.
func (g Ground) writeEval(dir string, attacks []Attack) (neighbours []string, err error) {
	e := g.eval()
	if g.Where != nil {
		g.Where(&e)
	}
	var tasks []eval.Task
	for _, a := range attacks {
		if a.Alone != nil && a.Alone.Eval != nil {
			a.Alone.Eval(g, &e)
		}
		if a.In != "" {
			continue
		}
		if !g.Alone && len(tasks)%(perNeighbour+1) == 0 {
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
	models, limits := g.models()
	return eval.Eval{
		Name: g.Name,
		Config: eval.Config{
			TrialsPerTask: 1, TimeoutSeconds: 480, Parallel: new(true), Workers: 4, Executor: "command",
			Agent: &eval.Agent{
				Command: program, Args: []string{"agent"},
				Transcript: &transcript.Source{From: "stdout", Format: transcript.FormatWaza},
			},
			Models: models, ModelLimits: limits,
			Isolation: eval.Isolation{
				Pull:    "never",
				Subnets: part.Subnets,
				Agent:   eval.AgentContainer{Image: g.Image, Limits: mcpconfig.Limits{Memory: "256m", Disk: "16m", ShmSize: "8m"}, MaxOutput: "8m", Env: env},
			},
			MCPServers: map[string]*mcpconfig.Server{
				evil: {Image: g.Image, Command: program, Args: []string{"server", part.Honest}, Env: env, Limits: mcpconfig.Limits{Memory: "256m", Disk: "64m"}},
			},
		},
		Tasks: []string{"tasks/*.yaml"},
	}
}

// task returns the task of an attack. The prompt of the agent is the name of the attack.
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
		t.MCPServers[evil] = nil // it has others, and each takes time to start
	}
	return t
}

// besideCalm adds a harmless server to the trial.
func besideCalm(g Ground, t *eval.Task) {
	t.MCPServers[calm] = &mcpconfig.Server{
		Image: g.Image, Command: program, Args: []string{"serve", part.Honest}, Type: "http", Port: part.Port, Limits: mcpconfig.Limits{Memory: "256m", Disk: "64m"},
	}
}

// Program returns a grader whose program attacks.
func (g Ground) Program(name, attack string) eval.Grader {
	config, _ := json.Marshal(map[string]any{ // of strings and a number
		"image": g.Image, "command": program, "args": []string{"grader", attack, g.Aims}, "timeout": 240,
	})
	return eval.Grader{Type: "program", Name: name, Config: config}
}

// neighbour returns a task whose trial passes.
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
