package scaffold

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"
	"unicode"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Found is something in a directory that an eval can be about.
type Found struct {
	What    string   // for people
	Clients string   // a client's file that has the servers; empty for source
	Command []string // that starts the server, if its source needs one to be named
	Source  bool     // its source is the directory
}

// clientFiles are where clients keep their servers for a project.
func clientFiles() []string {
	return []string{".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"}
}

// Detect returns what a directory has that an eval can be about, the most likely first.
func Detect(dir fs.FS) (found []Found) {
	for _, name := range clientFiles() {
		if isFile(dir, name) {
			found = append(found, Found{What: "the servers of " + name, Clients: name})
		}
	}
	switch manifests := images.Manifests(dir); {
	case isFile(dir, "Dockerfile"):
		found = append(found, Found{What: "the server that the Dockerfile here builds", Source: true})
	case len(manifests) > 0:
		found = append(found, Found{What: "the project here (" + manifests[0].Name + ")", Source: true})
	default:
		for _, name := range []string{"server.js", "index.js", "server.mjs", "server.py", "main.py", "server.go", "main.go"} {
			if isFile(dir, name) {
				command := CommandOf(name)
				found = append(found, Found{What: strings.Join(command, " "), Source: true, Command: command})
				break
			}
		}
	}
	return found
}

// CommandOf returns the command that runs a file, or nil if it is no program by its name.
func CommandOf(name string) []string {
	switch path.Ext(name) {
	case ".js", ".mjs", ".cjs":
		return []string{"node", name}
	case ".py":
		return []string{"python3", name}
	case ".go":
		return []string{"go", "run", name}
	}
	return nil
}

// IsProgram reports whether a file is a program by its name.
func IsProgram(name string) bool {
	return CommandOf(name) != nil || path.Ext(name) == ".ts"
}

func isFile(dir fs.FS, name string) bool {
	info, err := fs.Stat(dir, name)
	return err == nil && !info.IsDir()
}

// IsSource reports whether a command starts a program of a directory: an interpreter with a file
// of it, or that its build will make, or a file of it.
func IsSource(dir fs.FS, command []string) bool {
	switch path.Base(command[0]) {
	case "node", "python", "python3", "go", "bun", "deno", "tsx":
		if i := slices.Index(command, "-m"); i > 0 && i+1 < len(command) { // a module of Python's
			module := strings.ReplaceAll(command[i+1], ".", "/")
			for _, name := range []string{module, module + ".py", "src/" + module} {
				if _, err := fs.Stat(dir, name); err == nil {
					return true
				}
			}
		}
		return slices.ContainsFunc(command[1:], func(arg string) bool {
			arg = path.Clean(arg)
			if path.Base(command[0]) == "node" && isBuilt(dir, arg) {
				return true
			}
			_, err := fs.Stat(dir, arg)
			return err == nil && (isFile(dir, arg) || path.Base(command[0]) == "go")
		})
	}
	local := path.Clean(command[0])
	return strings.Contains(command[0], "/") && fs.ValidPath(local) && isFile(dir, local)
}

// isBuilt reports whether a file is in a directory, such as dist, that is not there and that a script of
// package.json may make.
func isBuilt(dir fs.FS, file string) bool {
	top, _, below := strings.Cut(file, "/")
	_, err := fs.Stat(dir, top)
	return below && fs.ValidPath(file) && err != nil && CommandOf(file) != nil && images.Makes(dir)
}

// Built is what an image is built from: a directory, at a path from the eval, and the path in it of the
// server's project, which is "." if the directory is the project.
type Built struct{ Context, Project string }

// OfSource returns a server whose image is built from a project, and the Dockerfile that the project
// needs; nil where it needs none. The command may be left out where the image has one.
func OfSource(dir fs.FS, from Built, command []string, env map[string]string) (config json.RawMessage, dockerfile []byte, err error) {
	server := struct {
		Build   any               `json:"build"`
		Command string            `json:"command,omitempty"`
		Args    []string          `json:"args,omitempty"`
		Cwd     string            `json:"cwd,omitempty"`
		Env     map[string]string `json:"env,omitempty"`
	}{Build: from.Context, Env: env}
	build := func(main string) {
		if main = path.Join(from.Project, main); main != "." {
			server.Build = mcpconfig.Build{Context: from.Context, Args: map[string]string{images.Main: "./" + main}}
		}
	}
	build(".")
	manifests := images.Manifests(dir)
	switch {
	case isFile(dir, "Dockerfile"):
	case len(manifests) != 1:
		if dockerfile, err = dockerfileOf(dir, command, manifests); err != nil {
			return nil, nil, err
		}
	case len(command) > 0 && path.Base(command[0]) == "go": // the image starts what is built
		main, args := goProgram(dir, command)
		server.Args = args
		build(main)
	case len(command) > 0:
		server.Command, server.Args = command[0], command[1:]
		if from.Project != "." {
			server.Cwd = path.Join(images.SourceDir, from.Project)
		}
	}
	config, err = jsontext.Marshal(server)
	return config, dockerfile, err
}

// goProgram returns the package in dir that go run starts, and the program's arguments.
func goProgram(dir fs.FS, command []string) (main string, args []string) {
	for i, arg := range command {
		main = path.Clean(arg)
		if _, err := fs.Stat(dir, main); err != nil || i == 0 {
			continue
		}
		for args = command[i+1:]; len(args) > 0 && strings.HasSuffix(args[0], ".go"); {
			args = args[1:]
		}
		if isFile(dir, main) {
			main = path.Dir(main)
		}
		return main, args
	}
	return ".", nil
}

// dockerfileOf returns a Dockerfile for a directory whose program a command starts, and that has
// no manifest, or several.
func dockerfileOf(dir fs.FS, command []string, manifests []images.Manifest) ([]byte, error) {
	if len(command) == 0 {
		has := "no manifest"
		if len(manifests) > 1 {
			has = manifests[0].Name + " and " + manifests[1].Name
		}
		return nil, fmt.Errorf("it has %s, but no Dockerfile and no start command: name the command after --, as in waza init -- node server.js", has)
	}
	language := path.Base(command[0])
	if language == "python3" {
		language = "python"
	}
	if !slices.Contains([]string{"node", "python", "go"}, language) {
		return nil, fmt.Errorf("waza cannot build an image for %q: write a Dockerfile next to it, and run waza init again", command[0])
	}
	file, manifest := command[len(command)-1], ""
	for _, m := range manifests {
		if m.Recipe == map[string]images.Recipe{"node": images.ByNode, "python": images.ByPython, "go": images.ByGo}[language] {
			manifest = m.Name
		}
	}
	if data, err := fs.ReadFile(dir, manifest); err == nil && language == "python" && bytes.Contains(data, []byte("tool.uv")) {
		manifest = "uv" // which follows settings that pip does not know
	}
	if language == "go" {
		i := slices.IndexFunc(command, func(arg string) bool {
			return strings.HasSuffix(arg, ".go") || manifest != "" && (arg == "." || strings.HasPrefix(arg, "./"))
		})
		if i < 0 && manifest == "" {
			return nil, fmt.Errorf("the directory has no go.mod: add one with go mod init, and run waza init again")
		}
		if file = "."; i >= 0 {
			file = command[i]
		}
	}
	return fill("Dockerfile", struct {
		Language, File, Manifest string
		Command                  []string
	}{language, file, manifest, command})
}

// WorkflowPath is where GitHub finds the workflow in a repository.
const WorkflowPath = ".github/workflows/waza.yml"

// Workflow is a GitHub workflow that runs an eval on pull requests.
type Workflow struct {
	Eval    string // path in the repository
	Branch  string // whose pushes it runs on too
	Release string // of waza, such as v0.1.0
	Commit  string // of the release; empty if it is not known
}

// File returns the workflow's file.
func (w Workflow) File() ([]byte, error) { return fill("workflow.yml", w) }

//go:embed templates
var templates embed.FS

// workflowWord quotes a word for a shell in a workflow. GitHub replaces expressions before a shell sees
// their quotes, so none is left: the shell reads $”{{ as what it was.
func workflowWord(s string) (string, error) {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "", fmt.Errorf("a workflow cannot name %s, which has control characters", text.Inert(s))
	}
	return strings.ReplaceAll(text.ShellWord(s), "${{", "$''{{"), nil
}

// fill fills in a template of this package.
func fill(name string, data any) ([]byte, error) {
	var out bytes.Buffer
	functions := template.FuncMap{"yaml": yaml, "inert": text.Inert, "shell": workflowWord, "json": func(v any) (string, error) {
		data, err := jsontext.Marshal(v)
		return string(data), err
	}}
	t, err := template.New(name).Funcs(functions).ParseFS(templates, "templates/"+name)
	if err == nil {
		err = t.Execute(&out, data)
	}
	return out.Bytes(), err
}
