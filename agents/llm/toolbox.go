package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// tool is something that the model may use.
type tool struct {
	name        string // for the model
	told        string // in the transcript; empty for name
	description string
	schema      json.RawMessage // of its arguments
	// run runs it, with an object. id is the model's of this use.
	run func(ctx context.Context, id string, arguments json.RawMessage) result
}

// Bounds of what the model is told of tools.
const (
	maxTools       = 1024
	maxDescription = 64 << 10  // bytes
	maxSchema      = 256 << 10 // bytes
)

// toolbox is the tools of a run, in the order in which the model is told of them.
type toolbox struct {
	all    []*tool
	byName map[string]*tool
}

func (b *toolbox) add(tools ...*tool) {
	for _, t := range tools {
		b.all = append(b.all, t)
		b.byName[t.name] = t
	}
}

// toolbox collects the tools that are wanted and can be had.
func (a *agent) toolbox(ctx context.Context, o Options, w workspace) (toolbox, error) {
	box := toolbox{byName: map[string]*tool{}}
	if o.has(ToolsFiles) {
		box.add(w.tools()...)
	}
	if o.has(ToolsShell) {
		shell, err := exec.LookPath("sh")
		if err == nil {
			box.add(shellTool(shell, w.path))
		} else if o.Tools != nil {
			return box, fmt.Errorf("config.llm.tools has %s, and the agent's image has no sh", ToolsShell)
		}
	}
	box.add(skillTools(o.Skills)...)
	if o.has(ToolsMCP) {
		if err := a.addServers(ctx, &box, o); err != nil {
			return box, err
		}
	}
	if len(box.all) > maxTools {
		return box, fmt.Errorf("the servers list %d tools, more than a model is told of (%d); name those that are needed in the servers' tools", len(box.all), maxTools)
	}
	return box, nil
}

func (b *toolbox) definitions() []definition {
	var all []definition
	for _, t := range b.all {
		all = append(all, definition{Type: "function", Function: function{
			Name: t.name, Description: head(t.description, maxDescription), Parameters: t.schema,
		}})
	}
	return all
}

// local makes a tool of ours of a function over its arguments.
func local[T any](name, description, schema string, run func(context.Context, T) result) *tool {
	return &tool{
		name: name, description: description, schema: json.RawMessage(schema),
		run: func(ctx context.Context, _ string, raw json.RawMessage) result {
			var arguments T
			if err := jsontext.Unmarshal(raw, &arguments); err != nil {
				return failure(fmt.Sprintf("the arguments do not fit the tool: %v", err))
			}
			return run(ctx, arguments)
		},
	}
}
