package llm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waza-isolate/waza/agents/internal/session"
	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// serverTimeout is how long a server may take for one call, or to list its tools.
const serverTimeout = 5 * time.Minute

// addServers adds the tools of all servers. One that does not list them is left out, with
// a line in the log: an agent has what there is.
func (a *agent) addServers(ctx context.Context, box *toolbox, o Options) error {
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
			box.add(a.remote(server, t, box.free(server, t.Name)))
		}
	}
	return nil
}

// free is a name for a server's tool that no other has.
func (b *toolbox) free(server, name string) string {
	written := capture.ModelName(server, name)
	for taken := b.byName[written] != nil; taken; taken = b.byName[written] != nil {
		sum := sha256.Sum256([]byte(written + "\x00" + name))
		written = written[:min(len(written), capture.MaxModelName-9)] + "_" + hex.EncodeToString(sum[:4])
	}
	return written
}

// remote is a server's tool.
func (a *agent) remote(server string, t session.Tool, name string) *tool {
	return &tool{
		name: name, told: "mcp__" + server + "__" + t.Name, description: t.Description, schema: parameters(t.InputSchema),
		run: func(ctx context.Context, id string, arguments json.RawMessage) result {
			return mcpResult(a.servers.Call(ctx, session.Call{
				Server: server, Tool: t.Name, Arguments: arguments, Meta: map[string]any{capture.MetaToolUse: id},
			}, serverTimeout))
		},
	}
}

// parameters is a schema as endpoints take it: an object's, with properties.
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
