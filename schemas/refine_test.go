package schemas_test

import (
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/mcpconfig"
)

// refineEval adds what the tags of the eval types cannot express.
func refineEval(s *jsonschema.Schema) error {
	config := s.Properties["config"]
	servers := config.Properties["mcp_servers"]
	refineServers(servers)
	servers.AdditionalProperties.AnyOf = []*jsonschema.Schema{
		{Required: []string{"command"}}, {Required: []string{"image"}}, {Required: []string{"build"}}, {Required: []string{"url"}},
	}
	container := config.Properties["isolation"].Properties["agent"]
	container.Properties["memory"].Pattern = mcpconfig.SizePattern
	container.Properties["disk"].Pattern = mcpconfig.SizePattern
	container.Properties["user"].Pattern = mcpconfig.UserPattern
	refineEnv(container.Properties["env"])
	config.If = typed("executor", "command")
	config.Then = &jsonschema.Schema{Required: []string{"agent", "isolation"}}
	s.Properties["tasks"].MinItems = jsonschema.Ptr(1)
	s.Properties["range"].MaxItems = jsonschema.Ptr(2)
	s.AnyOf = []*jsonschema.Schema{{Required: []string{"tasks"}}, {Required: []string{"tasks_from"}}}
	return refineGraders(s.Properties["graders"])
}

// refineTask adds what the tags of the task types cannot express.
func refineTask(s *jsonschema.Schema) error {
	inputs := s.Properties["inputs"]
	inputs.OneOf = []*jsonschema.Schema{{Required: []string{"prompt"}}, {Required: []string{"prompt_file"}}} // may be empty
	script := s.Properties["script"]
	script.Type, script.MinItems = "array", jsonschema.Ptr(1)
	refineEnv(s.Properties["inputs"].Properties["environment"])
	servers := s.Properties["mcp_servers"]
	refineServers(servers)
	servers.AdditionalProperties.Type = ""
	servers.AdditionalProperties.Types = []string{"object", "null"} // null removes
	return refineGraders(s.Properties["graders"])
}

func refineEnv(env *jsonschema.Schema) {
	env.PropertyNames = &jsonschema.Schema{
		Pattern: mcpconfig.VariablePattern,
		Not:     &jsonschema.Schema{Pattern: "^" + eval.ReservedEnv},
	}
}

func refineServers(servers *jsonschema.Schema) {
	reserved := &jsonschema.Schema{Enum: words(mcpconfig.ReservedNames())}
	servers.PropertyNames = &jsonschema.Schema{Pattern: mcpconfig.NamePattern, Not: reserved}
	properties := servers.AdditionalProperties.Properties
	properties["max_message"].Pattern = mcpconfig.SizePattern + `|\$\{`
	refineContainer(properties)
	services := properties["services"]
	services.PropertyNames = &jsonschema.Schema{Pattern: mcpconfig.LabelPattern, Not: reserved}
	services.AdditionalProperties.Type = ""
	services.AdditionalProperties.Types = []string{"object", "null"} // null removes
	service := services.AdditionalProperties.Properties
	refineContainer(service)
}

// refineContainer adds rules for the container of a server or service.
func refineContainer(properties map[string]*jsonschema.Schema) {
	for _, size := range []string{"memory", "disk"} {
		properties[size].Pattern = mcpconfig.SizePattern + `|\$\{` // or a variable
	}
	properties["user"].Pattern = mcpconfig.UserPattern + `|\$\{`
	properties["env"].PropertyNames = &jsonschema.Schema{Pattern: mcpconfig.VariablePattern}
}

// refineGraders defines each grader's config by its type.
func refineGraders(graders *jsonschema.Schema) error {
	grader := graders.Items
	grader.Properties["type"].Enum = words(grading.Types())
	grader.Properties["type"].MinLength = nil
	grader.Properties["config"].Type = "object"
	refers := &jsonschema.Schema{Required: []string{"ref"}}
	grader.Required, grader.AnyOf = nil, []*jsonschema.Schema{{Required: []string{"type"}}, refers}
	for _, name := range grading.Types() {
		config, ok := grading.NewConfig(name)
		if !ok {
			return fmt.Errorf("grader type %s has no config", name)
		}
		s, err := ofValue(config)
		if err != nil {
			return err
		}
		then := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"config": s}}
		if len(s.Required) > 0 {
			then.Required = []string{"config"}
		}
		whole := typed("type", name)
		whole.Not = refers // the referenced file has the missing keys
		grader.AllOf = append(grader.AllOf, &jsonschema.Schema{If: whole, Then: then})
	}
	return nil
}

// typed matches an object with the given value of a key.
func typed(key, value string) *jsonschema.Schema {
	return &jsonschema.Schema{
		Properties: map[string]*jsonschema.Schema{key: {Const: jsonschema.Ptr(any(value))}},
		Required:   []string{key},
	}
}
