package capture

import (
	"encoding/json"

	"github.com/waza-isolate/waza/runner/evidence"
)

// catalog is the tools of one server. Pages of a listing and later listings add
// to it; a tool that is listed again is described anew.
type catalog struct {
	tools []Tool
	index map[string]int
}

// kept reads what a server listed before tools were kept from the agent. The
// answer that the agent saw comes after it, and is what ends the request.
func (c *collector) kept(f evidence.Frame, m message) {
	waiting := c.open[requestID{connID{f.Server, f.Conn}, m.key}]
	if m.method == "" && len(waiting) > 0 && waiting[0].list {
		c.list(f, m.result)
	}
}

// list adds the tools of a tools/list result, and notes what of it cannot be read.
func (c *collector) list(f evidence.Frame, result json.RawMessage) {
	if result == nil {
		return // a protocol error lists nothing
	}
	page, err := members(result)
	if err != nil {
		c.note(f, NoteMalformed)
		return
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(page["tools"], &entries); err != nil {
		c.note(f, NoteMalformed)
		return
	}
	for _, entry := range entries {
		fields, err := members(entry)
		name := text(fields["name"])
		if err != nil || name == "" {
			c.note(f, NoteMalformed)
			continue
		}
		c.addTool(f.Server, Tool{
			Name: name, Description: text(fields["description"]),
			InputSchema: fields["inputSchema"], Annotations: fields["annotations"], Frame: f.Seq,
			Hidden: f.Side == evidence.SideServer,
		})
	}
}

func (c *collector) addTool(server string, tool Tool) {
	known := c.tools[server]
	if known == nil {
		known = &catalog{index: map[string]int{}}
		c.tools[server] = known
	}
	if i, ok := known.index[tool.Name]; ok {
		known.tools[i] = tool
		return
	}
	known.index[tool.Name] = len(known.tools)
	known.tools = append(known.tools, tool)
}
