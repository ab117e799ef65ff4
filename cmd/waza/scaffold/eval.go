package scaffold

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/internal/yamltext"
	"github.com/waza-isolate/waza/mcpconfig"
)

// File is a file to write; its path is slash-separated and relative to the directory of the eval.
type File struct {
	Path    string
	Content []byte
}

// Server is a server of the eval.
type Server struct {
	Name   string
	Config json.RawMessage    // as under mcp_servers
	Egress []mcpconfig.Egress // replaces the egress in Config; nil to keep that
	Tasks  []Task
	// Untried is true if the server did not start. Comments about what it may lack then follow its entry.
	// Asked are the variables that it asked for.
	Untried bool
	Asked   []string
}

// YAML returns the server as an entry of mcp_servers, with each line indented. If there is only one member,
// it is on the same line as the name.
func (s Server) YAML(indent string) (string, error) {
	var members []string
	for key, value := range jsontext.Members(s.Config) {
		if key != "egress" || s.Egress == nil {
			members = append(members, yamltext.Word(key)+": "+yamltext.Flow(value))
		}
	}
	if s.Egress != nil {
		hosts := make([]any, len(s.Egress))
		for i, e := range s.Egress {
			if hosts[i] = e; e.Ports == nil && e.Address == "" {
				hosts[i] = e.Host
			}
		}
		egress, err := yaml(hosts)
		if err != nil {
			return "", err
		}
		members = append(members, "egress: "+egress)
	}
	if s.Untried {
		lacks, err := s.lacks()
		if err != nil {
			return "", err
		}
		members = append(members, lacks...)
	}
	if len(members) == 1 {
		return indent + yamltext.Word(s.Name) + ": {" + members[0] + "}\n", nil
	}
	return strings.Join(append([]string{indent + yamltext.Word(s.Name) + ":"}, members...), "\n  "+indent) + "\n", nil
}

// database is a commented-out service that a server may lack.
const database = `# services: # a database, which the server reaches at db:5432; see docs/mcp-servers.md of waza
#   db:
#     image: postgres:17
#     user: postgres
#     env: {POSTGRES_PASSWORD: "${PG_PASSWORD:-example}"}
#     writable: [/var/lib/postgresql/data, /var/run/postgresql]
#     ports: [5432]
#     ready: {exec: [pg_isready, --host=localhost]}`

// databaseURL is the value of a variable that a server asks for, if its name looks like that of a database
// URL.
const databaseURL = "postgres://postgres:${PG_PASSWORD:-example}@db:5432/postgres"

var ofDatabase = regexp.MustCompile(`^(DATABASE|DB|PG|POSTGRES|POSTGRESQL)_(URL|URI|DSN)$`)

// lacks returns comments about what a server that did not start may lack.
func (s Server) lacks() ([]string, error) {
	env := map[string]string{}
	for _, name := range s.Asked {
		env[name] = "CHANGE ME"
		if ofDatabase.MatchString(name) {
			env[name] = databaseURL
		}
	}
	if len(env) == 0 {
		env["DATABASE_URL"] = databaseURL
	}
	line, err := yaml(env)
	if line = "# env: " + line; jsontext.Member(s.Config, "env") != nil {
		line = "# more in env: " + line[len("# env: "):]
	}
	note := "# CHANGE ME: the server did not start; complete what it needs of the following, and remove the rest"
	return append([]string{note, line}, strings.Split(database, "\n")...), err
}

// yaml returns a value as one line of YAML.
func yaml(v any) (string, error) {
	data, err := jsontext.Marshal(v)
	if err != nil {
		return "", err
	}
	return yamltext.Flow(data), nil
}

// Eval holds the contents of an eval.
type Eval struct {
	Name     string
	Skill    string // skill under evaluation; empty if there is none
	Executor string
	Model    string // empty for the executor's default
	Servers  []Server
}

// Scripted reports whether its tasks have scripts, which executor script plays.
func (e Eval) Scripted() bool { return e.Executor == "script" }

// ReachesOut reports whether one of its servers has egress.
func (e Eval) ReachesOut() bool {
	return slices.ContainsFunc(e.Servers, func(s Server) bool { return s.Egress != nil })
}

// Remote reports whether one of its servers runs elsewhere.
func (e Eval) Remote() bool {
	return slices.ContainsFunc(e.Servers, func(s Server) bool { return jsontext.Member(s.Config, "url") != nil })
}

// Files returns the files of the eval and its tasks.
func (e Eval) Files() ([]File, error) {
	content, err := fill("eval.yaml", e)
	files := []File{{"eval.yaml", content}}
	for _, s := range e.Servers {
		for _, t := range s.Tasks {
			id := string(t.Kind) + "-" + strings.ToLower(strings.Trim(t.Tool, "._-"))
			if len(e.Servers) > 1 {
				id = s.Name + "-" + id
			}
			id = strings.Trim(id[:min(len(id), 60)], "._-")
			content, fails := t.File(id, s.Name)
			files, err = append(files, File{path.Join("tasks", id+".yaml"), content}), errors.Join(err, fails)
		}
	}
	if len(files) == 1 && len(e.Servers) > 0 && !e.Servers[0].Untried { // none of the servers' tools may be called
		content, fails := NewTask("starts", e.Servers[0].Name, "", nil)
		files, err = append(files, File{"tasks/starts.yaml", content}), errors.Join(err, fails)
	}
	return files, err
}

// File returns the task with an ID as a file.
func (t Task) File(id, server string) ([]byte, error) {
	return fill("task.yaml", struct {
		ID, Server string
		Task
	}{id, server, t})
}

// Case holds the contents of a task that repeats a trial.
type Case struct {
	ID, From   string // From names the trial
	Prompt     string
	FollowUps  []string
	ContextDir string           // directory of the files; empty if there are none
	Paths      []string         // of the workspace's files
	Repos      []map[string]any // as in a task file
	Calls      []Called
	Scripted   bool   // the agent's script is written too
	Output     string // the agent's final output
}

// Called is a call made by the agent.
type Called struct {
	evidence.ToolRef
	Arguments json.RawMessage
	Outcome   evidence.Outcome
}

// File returns the case as the file of a task.
func (c Case) File() ([]byte, error) { return fill("case.yaml", c) }

// Answered returns the calls that succeeded.
func (c Case) Answered() []Called {
	return c.calls(func(o evidence.Outcome) bool { return o == evidence.OutcomeOK })
}

// Failed returns how many calls failed.
func (c Case) Failed() int { return len(c.calls(evidence.Outcome.Failed)) }

// Repeatable returns the calls that a script can repeat. Unanswered calls are not among them, since a
// cassette has no answer to them either.
func (c Case) Repeatable() []Called {
	return c.calls(func(o evidence.Outcome) bool { return !o.Unanswered() })
}

func (c Case) calls(keep func(evidence.Outcome) bool) (all []Called) {
	for _, call := range c.Calls {
		if keep(call.Outcome) {
			all = append(all, call)
		}
	}
	return all
}

// Said returns the beginning of the agent's final output, for a comment.
func (c Case) Said() string { return yamltext.Quoted(text.Shorten(c.Output, maxSaidInEnd)) }

// maxSaidInEnd is the maximum size of the output in a comment, in bytes.
const maxSaidInEnd = 300

// Values returns the arguments in the form that a grader expects. Values that might be read as matchers are
// wrapped in the matcher equals.
func (c Called) Values() map[string]any {
	values := map[string]any{}
	for name, value := range jsontext.Members(c.Arguments) {
		switch given := jsontext.Decode(value).(type) {
		case nil, map[string]any, []any:
			values[name] = map[string]any{"equals": given}
		default:
			values[name] = given
		}
	}
	return values
}

// literal returns a value for a script, with its strings escaped so that they are not templates.
func literal(value any) any {
	return jsontext.Map(value, func(scalar any) any {
		if text, is := scalar.(string); is {
			return strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
		}
		return scalar
	})
}

// Given returns the arguments for a script.
func (c Called) Given() any { return literal(jsontext.Decode(c.Arguments)) }

// Say returns the output for a script.
func (c Case) Say() any { return literal(c.Output) }

// changeMe matches placeholders for the user to replace. In names, the placeholder has no space.
var changeMe = regexp.MustCompile(`CHANGE[ _-]ME`)

// Unwritten returns the first placeholder in a text, such as a result of [NewTask] or [NewGrader], or "" if
// there is none.
func Unwritten(text []byte) string { return string(changeMe.Find(text)) }

// NewTask returns a task for the user to complete. It calls a tool, or lists the tools of a server, and its
// grader has a placeholder for the expected answer.
func NewTask(id, server, tool string, arguments json.RawMessage) ([]byte, error) {
	return fill("newtask.yaml", struct {
		ID, Server, Tool string
		Arguments        json.RawMessage
	}{id, server, tool, arguments})
}

// NewGrader returns the file of a grader of the given type, for the user to complete and for an eval to refer
// to. It returns an error for types that need more than a config.
func NewGrader(kind string) ([]byte, error) {
	content, err := templates.ReadFile("templates/graders/" + kind + ".yaml")
	if err != nil {
		var all []string
		known, _ := templates.ReadDir("templates/graders") // cannot fail: the directory is embedded
		for _, file := range known {
			all = append(all, strings.TrimSuffix(file.Name(), ".yaml"))
		}
		return nil, fmt.Errorf("no grader of type %q is written here, but of %s; docs/graders.md of waza has the others", kind, strings.Join(all, ", "))
	}
	return content, nil
}
