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

// Found is something in a directory for which an eval can be written.
type Found struct {
	What    string   // description for the user
	Clients string   // a client's file with the servers; empty for source
	Command []string // starts the server; nil if its source needs no command
	Source  bool     // the directory is the server's source
}

// clientFiles are the files in which clients keep the servers of a project.
func clientFiles() []string {
	return []string{".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"}
}

// Detect returns what an eval can be written for in a directory, starting with the most likely.
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

// CommandOf returns the command that runs a file, or nil if its name is not that of a program.
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

// IsProgram reports whether a file's name is that of a program.
func IsProgram(name string) bool {
	return CommandOf(name) != nil || path.Ext(name) == ".ts"
}

func isFile(dir fs.FS, name string) bool {
	info, err := fs.Stat(dir, name)
	return err == nil && !info.IsDir()
}

// IsSource reports whether a command starts a program in a directory: an interpreter with a file that exists
// or that the build will create, or the path of a file.
func IsSource(dir fs.FS, command []string) bool {
	switch path.Base(command[0]) {
	case "node", "python", "python3", "go", "bun", "deno", "tsx":
		if i := slices.Index(command, "-m"); i > 0 && i+1 < len(command) { // a Python module
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

// isBuilt reports whether a file is in a missing directory, such as dist, that a script of package.json may
// create.
func isBuilt(dir fs.FS, file string) bool {
	top, _, below := strings.Cut(file, "/")
	_, err := fs.Stat(dir, top)
	return below && fs.ValidPath(file) && err != nil && CommandOf(file) != nil && images.Makes(dir)
}

// Built is the source of an image: the build context, as a path relative to the eval, and the path of the
// server's project in it, which is "." if the context is the project.
type Built struct{ Context, Project string }

// OfSource returns a server whose image is built from a project, and the Dockerfile that the project needs;
// nil if it needs none. command may be empty if the image has a command.
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
	case len(command) > 0 && path.Base(command[0]) == "go": // the image starts the program that it builds
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

// goProgram returns the package in dir that a go run command starts, and the program's arguments.
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

// dockerfileOf returns a Dockerfile for a directory with no manifest or several, given the command that
// starts its program.
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
		manifest = "uv" // uv follows settings that pip does not know
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

// WorkflowPath is the path of the workflow in a GitHub repository.
const WorkflowPath = ".github/workflows/waza.yml"

// Workflow is a GitHub workflow that runs an eval on pull requests.
type Workflow struct {
	Eval    string // path of the eval in the repository
	Branch  string // the workflow also runs on pushes to it
	Release string // release of waza, such as v0.1.0
	Commit  string // commit of the release; empty if it is unknown
}

// File returns the workflow's file.
func (w Workflow) File() ([]byte, error) { return fill("workflow.yml", w) }

//go:embed templates
var templates embed.FS

// workflowWord quotes a word for a shell in a workflow. GitHub expands expressions even within quotes, so
// each "${{" is split by an empty quoted string, which the shell removes again.
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
