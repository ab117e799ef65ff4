package llm

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/model/dialect"
)

// tool is a tool that the model may call.
type tool struct {
	name        string // name for the model
	reported    string // name in the transcript; if empty, name is used
	description string
	schema      json.RawMessage // schema of the arguments
	// run executes the tool with an object of arguments. id is the model's id of the call.
	run func(ctx context.Context, id string, arguments json.RawMessage) result
}

// Limits of the tools that are offered to the model.
const (
	maxTools       = 1024
	maxDescription = 64 << 10  // in bytes
	maxSchema      = 256 << 10 // in bytes
)

// toolbox holds the tools of a run, in the order in which they are offered to the model.
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

// toolbox returns the tools that are enabled and available.
func (a *agent) toolbox(ctx context.Context, o input.Input, w workspace) (toolbox, error) {
	container := toolbox{byName: map[string]*tool{}}
	if o.Has(input.ToolsFiles) {
		container.add(w.tools()...)
	}
	if o.Has(input.ToolsShell) {
		shell, err := exec.LookPath("sh")
		if err == nil {
			container.add(shellTool(shell, w.path))
		} else if o.Tools != nil {
			return container, fmt.Errorf("config.llm.tools has %s, and the agent's image has no sh", input.ToolsShell)
		}
	}
	container.add(skillTools(o.Skills)...)
	if o.Has(input.ToolsMCP) {
		if err := a.addServers(ctx, &container); err != nil {
			return container, err
		}
	}
	if len(container.all) > maxTools {
		return container, fmt.Errorf("the servers list %d tools, and a model gets at most %d; name those that are needed in the servers' tools", len(container.all), maxTools)
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

// local returns a tool that is implemented by a function.
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

// serverTimeout is the time limit of one call of a server, and of listing its tools.
const serverTimeout = 5 * time.Minute

// addServers adds the tools of all servers. A server whose tools cannot be listed is skipped
// and logged.
func (a *agent) addServers(ctx context.Context, container *toolbox) error {
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
			_, _ = fmt.Fprintf(a.log, "server %s: its tools cannot be used: %s\n", server, quote(err.Error()))
			continue
		}
		for _, t := range listed {
			if len(t.InputSchema) > maxSchema || len(t.Name) > maxName {
				_, _ = fmt.Fprintf(a.log, "server %s: tool %s is omitted: its definition is too long\n", server, quote(t.Name))
				continue
			}
			container.add(a.remote(server, t, container.free(server, t.Name)))
		}
	}
	return nil
}

// free returns a unique name for a server's tool.
func (b *toolbox) free(server, name string) string {
	written := dialect.NameOf(server, name)
	for taken := b.byName[written] != nil; taken; taken = b.byName[written] != nil {
		sum := sha256.Sum256([]byte(written + "\x00" + name))
		written = written[:min(len(written), dialect.MaxToolName-9)] + "_" + hex.EncodeToString(sum[:4])
	}
	return written
}

// remote returns a server's tool.
func (a *agent) remote(server string, t client.Tool, name string) *tool {
	return &tool{
		name: name, reported: "mcp__" + server + "__" + t.Name, description: t.Description, schema: parameters(t.InputSchema),
		run: func(ctx context.Context, id string, arguments json.RawMessage) result {
			return mcpResult(a.servers.Call(ctx, client.Call{
				Server: server, Tool: t.Name, Arguments: arguments, Meta: map[string]any{input.MetaToolUse: id},
			}, serverTimeout))
		},
	}
}

// parameters returns a schema in the form that endpoints require: an object schema with properties.
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

// block is a content block of an MCP result. It has the fields of all kinds of blocks.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"` // base64, for an image or audio
	MIMEType string `json:"mimeType"`
	URI      string `json:"uri"` // for a link
	Name     string `json:"name"`
	Resource struct {
		URI      string  `json:"uri"`
		MIMEType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     string  `json:"blob"`
	} `json:"resource"`
}

// mcpResult converts the answer to a call for the model: text is kept, pictures are separate, and everything
// else is only named. Structured content is added unless a text block contains it.
func mcpResult(a client.Answer) result {
	r := result{failed: a.Outcome != evidence.OutcomeOK, raw: a.Result}
	if a.Message != "" {
		r.text = fmt.Sprintf("%s: %s", a.Outcome, a.Message)
		return r
	}
	var got struct {
		Content    []block         `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}
	if err := jsontext.Unmarshal(a.Result, &got); err != nil {
		return result{text: "the result cannot be read: " + quote(err.Error()), failed: true, raw: a.Result}
	}
	var texts []string
	for _, b := range got.Content {
		if p, ok := b.picture(); ok && len(r.pictures) < maxPictures {
			r.pictures = append(r.pictures, p)
		}
		texts = append(texts, b.shown())
	}
	if len(got.Structured) > 0 && string(got.Structured) != "null" && !containsValue(got.Content, got.Structured) {
		texts = append(texts, string(got.Structured))
	}
	r.text = strings.Join(texts, "\n")
	return r
}

// containsValue reports whether one of the text blocks equals the value.
func containsValue(blocks []block, value json.RawMessage) bool {
	want, ok := jsontext.Canonical(value)
	for _, b := range blocks {
		if got, is := jsontext.Canonical([]byte(b.Text)); ok && is && b.Type == "text" && got == want {
			return true
		}
	}
	return false
}

// shown returns a text for a block.
func (b block) shown() string {
	switch b.Type {
	case "text":
		return b.Text
	case "image", "audio":
		return fmt.Sprintf("[%s: %s, %d bytes of base64]", b.Type, b.MIMEType, len(b.Data))
	case "resource_link":
		return fmt.Sprintf("[resource %s: %s]", b.Name, b.URI)
	case "resource":
		if b.Resource.Text != nil {
			return fmt.Sprintf("[resource %s]\n%s", b.Resource.URI, *b.Resource.Text)
		}
		return fmt.Sprintf("[resource %s: %s, %d bytes of base64]", b.Resource.URI, b.Resource.MIMEType, len(b.Resource.Blob))
	default:
		return fmt.Sprintf("[a block of type %s, which is not known here]", quote(b.Type))
	}
}

// Limits of the pictures of a result.
const (
	maxPictures = 8
	maxPicture  = 5 << 20 // bytes of base64
)

// picture is a picture as a data URL.
type picture string

// picture returns the picture of a block, if models support its type.
func (b block) picture() (picture, bool) {
	known := slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, b.MIMEType)
	if b.Type != "image" || !known || len(b.Data) > maxPicture {
		return "", false
	}
	if _, err := base64.StdEncoding.DecodeString(b.Data); err != nil {
		return "", false
	}
	return picture("data:" + b.MIMEType + ";base64," + b.Data), true
}

// part is a part of a message with several parts.
type part struct {
	Type  string             `json:"type"`
	Text  string             `json:"text,omitempty"`
	Image map[string]picture `json:"image_url,omitempty"`
}
