package adapter

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Load reads the adapter in a file. Errors are [strictyaml.Errors], unless the file cannot be
// read.
func Load(file string) (*Adapter, error) {
	data, err := files.Read(file, strictyaml.MaxBytes)
	if err != nil {
		return nil, err
	}
	return Parse(file, data)
}

// Parse parses an adapter. It returns all mistakes at once, as [strictyaml.Errors].
func Parse(file string, data []byte) (*Adapter, error) {
	doc, err := strictyaml.Parse(file, data)
	if err != nil {
		return nil, err
	}
	base := filepath.Base(file)
	a := &Adapter{Name: strings.TrimSuffix(base, filepath.Ext(base))}
	doc.Decode(a)
	c := checker{doc: doc}
	c.check(a)
	if err := doc.Err(); err != nil {
		return nil, err
	}
	return a, nil
}

// checker makes the checks that tags cannot express.
type checker struct{ doc *strictyaml.Document }

func (c checker) problem(at strictyaml.Path, format string, args ...any) {
	c.doc.Problemf(at, "%s: %s", at, fmt.Sprintf(format, args...))
}

func (c checker) check(a *Adapter) {
	c.image(a)
	c.command(strictyaml.Path{"command"}, a.Command, a.Prompt)
	c.command(strictyaml.Path{"continue"}, a.Continue, a.Prompt)
	for i, arg := range a.Effort {
		c.templates(strictyaml.Path{"effort", i}, arg, []string{Effort})
	}
	c.env(strictyaml.Path{"env"}, a.Env)
	c.files(a.Files)
	c.models(a)
	for _, p := range Reporting(a.Output, a.Transcript, a.Skills) {
		c.problem(p.At, "%s", p.What)
	}
	for _, code := range slices.Sorted(maps.Keys(a.ExitCodes)) {
		if n, err := strconv.Atoi(code); err != nil || n < 1 || n > 255 {
			c.doc.KeyProblemf(strictyaml.Path{"exit_codes", code}, "exit_codes: %q is not an exit code from 1 to 255", code)
		}
	}
}

func (c checker) image(a *Adapter) {
	at := strictyaml.Path{"npm"}
	if strings.ContainsAny(a.Image, " \t\r\n\x00") {
		c.problem(strictyaml.Path{"image"}, "must not hold blanks")
	}
	if a.Image != "" && len(a.NPM) > 0 {
		c.problem(at, "the agent's image is named by image already; give one of them")
	}
	if a.Setup != "" && len(a.NPM) == 0 {
		c.problem(strictyaml.Path{"setup"}, "has no effect without npm packages; add npm, or remove it")
	}
	if _, err := a.Package(); err != nil {
		c.problem(at, "%v", err)
	}
}

// Package returns the npm packages of the agent's image. Its Wanted is empty if there are none.
func (a *Adapter) Package() (mcpconfig.Package, error) {
	return mcpconfig.NPMPackages(a.NPM)
}

func (c checker) command(at strictyaml.Path, command []string, prompt string) {
	if len(command) > 0 && command[0] == "" {
		c.problem(append(at, 0), "names no program")
	}
	c.args(at, command)
	if prompt == "stdin" || prompt == "file" {
		for i, arg := range command {
			if uses(arg, Prompt) {
				c.problem(append(at, i), "holds {{prompt}}, and prompt hands it over by %s; remove one of them", prompt)
			}
		}
	}
}

func (c checker) args(at strictyaml.Path, args []string) {
	for i, arg := range args {
		step := append(slices.Clone(at), i)
		if strings.ContainsRune(arg, 0) {
			c.problem(step, "must not hold a NUL character")
		}
		if uses(arg, Prompt) && arg != "{{prompt}}" {
			c.problem(step, "{{prompt}} must be an argument of its own")
		}
		c.templates(step, arg, inCommand())
	}
}

func (c checker) templates(at strictyaml.Path, text string, allowed []string) {
	for _, name := range unknown(text, allowed) {
		c.problem(at, "unknown template {{%s}}; %s", name, strictyaml.Suggest(name, allowed))
	}
}

func (c checker) env(at strictyaml.Path, env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		step := append(slices.Clone(at), name)
		switch {
		case !mcpconfig.IsVariable(name):
			c.doc.KeyProblemf(step, "%s: %q is not a variable's name", at, name)
		case name == "HOME" || strings.HasPrefix(name, "WAZA_"):
			c.doc.KeyProblemf(step, "%s: is set by waza itself", step)
		case strings.ContainsRune(env[name], 0):
			c.problem(step, "must not hold a NUL character")
		}
		c.templates(step, env[name], inEnv())
	}
}

func (c checker) files(placed map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(placed)) {
		at := strictyaml.Path{"files", name}
		if !files.IsInside(name) || path.Clean(name) != name || name == "." {
			c.doc.KeyProblemf(at, "files: %q must be a path below home, relative, with / and without ..", name)
		}
		for _, other := range slices.Sorted(maps.Keys(placed)) {
			if strings.HasPrefix(other, name+"/") {
				c.doc.KeyProblemf(at, "files: %q is a directory too, of %q", name, other)
			}
		}
		c.templates(at, placed[name], inFiles())
	}
}

func (c checker) models(a *Adapter) {
	seen := map[string]bool{}
	for i, m := range a.Models {
		at := strictyaml.Path{"models", i}
		if seen[m.Kind] && m.Kind != "" {
			c.problem(append(at, "kind"), "%s appears twice", m.Kind)
		}
		seen[m.Kind] = true
		c.args(append(slices.Clone(at), "args"), m.Args)
		c.env(append(slices.Clone(at), "env"), m.Env)
	}
	if len(a.Models) == 0 {
		c.withoutModels(a)
	}
}

// withoutModels reports uses of {{model_url}}, which has no value if the adapter has no models.
func (c checker) withoutModels(a *Adapter) {
	refuse := func(at strictyaml.Path, text string) {
		if uses(text, ModelURL) {
			c.problem(at, "holds {{model_url}}, and models names no provider that the agent can ask")
		}
	}
	for i, arg := range a.Command {
		refuse(strictyaml.Path{"command", i}, arg)
	}
	for _, texts := range []struct {
		key string
		of  map[string]string
	}{{"env", a.Env}, {"files", a.Files}} {
		for _, name := range slices.Sorted(maps.Keys(texts.of)) {
			refuse(strictyaml.Path{texts.key, name}, texts.of[name])
		}
	}
}

// Reporting returns the mistakes in the locations of an agent's output, transcript and skills. Adapters and
// an eval's config.agent have the same keys for these.
func Reporting(output string, from *transcript.Source, skills string) (all []transcript.Problem) {
	wrong := func(what string, at ...any) { all = append(all, transcript.Problem{At: at, What: what}) }
	if output == Transcript && from == nil {
		wrong("the messages of the transcript need the key transcript, which says where that is", "output")
	}
	if output != "" && !files.IsInside(output) {
		wrong("must be stdout, transcript or the path of a file in the workspace, relative, with / and without ..", "output")
	}
	if skills != "" && (!files.IsInside(skills) || path.Clean(skills) == ".") {
		wrong("must be the path of a directory in the workspace, relative, with / and without ..", "skills")
	}
	if from == nil {
		return all
	}
	if from.From != "" && !files.IsInside(from.From) {
		wrong("must be stdout, stderr or the path of a file in the workspace, relative, with / and without ..", "transcript", "from")
	}
	for _, p := range from.Problems() {
		wrong(p.What, slices.Concat([]any{"transcript"}, p.At)...)
	}
	return all
}

// Names of templates. {{prompt}} must be a whole argument.
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

// inCommand returns the templates that a command may contain.
func inCommand() []string {
	return []string{Prompt, PromptFile, ModelName, ModelURL, Workspace, Home, MCPConfig}
}

// inEnv returns the templates that an environment variable may contain.
func inEnv() []string { return []string{ModelName, ModelURL, Workspace, Home, MCPConfig} }

// inFiles returns the templates that a file may contain.
func inFiles() []string { return append(inEnv(), MCPServers) }

// placeholder matches any text in double braces, since adapters use these for nothing else.
var placeholder = regexp.MustCompile(`\{\{([^{}\n]{0,100})\}\}`)

// Fill replaces each {{NAME}} in text with its value. It keeps names without a value.
func Fill(text string, values map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		if value, ok := values[nameIn(found)]; ok {
			return value
		}
		return found
	})
}

func nameIn(found string) string { return placeholder.FindStringSubmatch(found)[1] }

// unknown returns the names of templates in text that are not allowed.
func unknown(text string, allowed []string) []string {
	var names []string
	for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(allowed, found[1]) {
			names = append(names, found[1])
		}
	}
	return names
}

// uses reports whether text contains the template name.
func uses(text, name string) bool {
	return slices.ContainsFunc(placeholder.FindAllStringSubmatch(text, -1), func(found []string) bool { return found[1] == name })
}
