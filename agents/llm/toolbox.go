package llm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"github.com/waza-isolate/waza/agents/internal/session"
	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// tool is something that the model may use.
type tool struct {
	name        string // for the model
	reported    string // in the transcript; empty for name
	description string
	schema      json.RawMessage // of its arguments
	// run runs it with an object of arguments. id is the model's id of this use.
	run func(ctx context.Context, id string, arguments json.RawMessage) result
}

// Bounds of what the model is told of tools.
const (
	maxTools       = 1024
	maxDescription = 64 << 10  // bytes
	maxSchema      = 256 << 10 // bytes
)

// toolbox is the tools of a run, in the order in which the model gets them.
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

// toolbox returns the tools that are wanted and available.
func (a *agent) toolbox(ctx context.Context, o Options, w workspace) (toolbox, error) {
	container := toolbox{byName: map[string]*tool{}}
	if o.has(ToolsFiles) {
		container.add(w.tools()...)
	}
	if o.has(ToolsShell) {
		shell, err := exec.LookPath("sh")
		if err == nil {
			container.add(shellTool(shell, w.path))
		} else if o.Tools != nil {
			return container, fmt.Errorf("config.llm.tools has %s, and the agent's image has no sh", ToolsShell)
		}
	}
	container.add(skillTools(o.Skills)...)
	if o.has(ToolsMCP) {
		if err := a.addServers(ctx, &container, o); err != nil {
			return container, err
		}
	}
	if len(container.all) > maxTools {
		return container, fmt.Errorf("the servers list %d tools, more than a model is told of (%d); name those that are needed in the servers' tools", len(container.all), maxTools)
	}
	return container, nil
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

// local returns a tool of our own that a function runs.
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

// serverTimeout is how long a server may take for one call, or to list its tools.
const serverTimeout = 5 * time.Minute

// addServers adds the tools of all servers. It leaves out a server that does not list them, with a
// line in the log.
func (a *agent) addServers(ctx context.Context, container *toolbox, o Options) error {
	names, err := a.servers.Names()
	if err != nil {
		return err
	}
	for _, server := range names {
		listed, err := a.servers.Tools(ctx, server, serverTimeout)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			_, _ = fmt.Fprintf(o.Log, "server %s: its tools cannot be used: %s\n", server, quote(err.Error()))
			continue
		}
		for _, t := range listed {
			if len(t.InputSchema) > maxSchema || len(t.Name) > maxName {
				_, _ = fmt.Fprintf(o.Log, "server %s: tool %s is left out: what it says of itself is too long\n", server, quote(t.Name))
				continue
			}
			container.add(a.remote(server, t, container.free(server, t.Name)))
		}
	}
	return nil
}

// free returns a name for a server's tool that no other tool has.
func (b *toolbox) free(server, name string) string {
	written := capture.ModelName(server, name)
	for taken := b.byName[written] != nil; taken; taken = b.byName[written] != nil {
		sum := sha256.Sum256([]byte(written + "\x00" + name))
		written = written[:min(len(written), capture.MaxModelName-9)] + "_" + hex.EncodeToString(sum[:4])
	}
	return written
}

// remote returns a server's tool.
func (a *agent) remote(server string, t session.Tool, name string) *tool {
	return &tool{
		name: name, reported: "mcp__" + server + "__" + t.Name, description: t.Description, schema: parameters(t.InputSchema),
		run: func(ctx context.Context, id string, arguments json.RawMessage) result {
			return mcpResult(a.servers.Call(ctx, session.Call{
				Server: server, Tool: t.Name, Arguments: arguments, Meta: map[string]any{capture.MetaToolUse: id},
			}, serverTimeout))
		},
	}
}

// parameters returns a schema as endpoints take it: that of an object, with properties.
func parameters(schema json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if jsontext.Unmarshal(schema, &fields) != nil || fields == nil {
		fields = map[string]json.RawMessage{}
	}
	if string(fields["type"]) == `"object"` && fields["properties"] != nil {
		return schema
	}
	fields["type"] = json.RawMessage(`"object"`)
	if fields["properties"] == nil {
		fields["properties"] = json.RawMessage("{}")
	}
	return encode(fields)
}
