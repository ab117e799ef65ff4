package llm

import (
	"fmt"
	"strings"
)

// systemPrompt is what the model is told before the task.
func systemPrompt(o Options) string {
	parts := []string{"You are an agent. Do what the user asks, with the tools that you have. Nobody answers questions on the way: decide yourself. When you are done, say the result and use no tool."}
	if o.has(ToolsFiles) || o.has(ToolsShell) {
		parts = append(parts, "Your workspace is "+o.Workspace+"; paths are relative to "+o.start()+".")
	}
	if len(o.Context) > 0 {
		parts = append(parts, "The task's context, as JSON:\n"+string(o.Context))
	}
	if len(o.Skills) > 0 {
		lines := []string{"These skills are there: instructions for kinds of work. Where one fits, read it with the tool skill before you begin."}
		for _, s := range o.Skills {
			lines = append(lines, fmt.Sprintf("- %s: %s", s.Name, strings.Join(strings.Fields(s.Description), " ")))
		}
		parts = append(parts, strings.Join(lines, "\n"))
	}
	if o.System != "" {
		parts = append(parts, o.System)
	}
	return strings.Join(parts, "\n\n")
}

// start is the directory that paths are relative to.
func (o Options) start() string {
	if o.Dir != "" {
		return o.Dir
	}
	return o.Workspace
}
