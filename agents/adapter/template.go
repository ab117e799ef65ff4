package adapter

import (
	"regexp"
	"slices"
)

// Names of templates. {{prompt}} is a whole argument.
const (
	Prompt     = "prompt"
	PromptFile = "prompt_file"
	ModelName  = "model"
	ModelURL   = "model_url"
	Workspace  = "workspace"
	Home       = "home"
	MCPConfig  = "mcp_config"
	MCPServers = "mcp_servers"
	Effort     = "reasoning_effort"
)

// Which templates may stand in a command, in variables and in files.
func inCommand() []string {
	return []string{Prompt, PromptFile, ModelName, ModelURL, Workspace, Home, MCPConfig}
}
func inEnv() []string   { return []string{ModelName, ModelURL, Workspace, Home, MCPConfig} }
func inFiles() []string { return append(inEnv(), MCPServers) }

// placeholder is whatever stands in double braces, which nothing else has a use for.
var placeholder = regexp.MustCompile(`\{\{([^{}\n]{0,100})\}\}`)

// Fill is text with what each {{NAME}} stands for. What values lack stays as it stands.
func Fill(text string, values map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		if value, ok := values[nameIn(found)]; ok {
			return value
		}
		return found
	})
}

func nameIn(found string) string { return placeholder.FindStringSubmatch(found)[1] }

// unknown is the names in text that are none of allowed.
func unknown(text string, allowed []string) []string {
	var names []string
	for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(allowed, found[1]) {
			names = append(names, found[1])
		}
	}
	return names
}

// uses says whether name stands in text.
func uses(text, name string) bool {
	return slices.ContainsFunc(placeholder.FindAllStringSubmatch(text, -1), func(found []string) bool { return found[1] == name })
}
