package scaffold

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
)

// Kind is a kind of task.
type Kind string

// Kinds of tasks, in their order.
const (
	Read  Kind = "read"  // of a tool that changes nothing
	Write Kind = "write" // of a tool that may change something
	Error Kind = "error" // of a call that a tool has to refuse
)

// Try is a call that is made while a server is inspected, to learn what a task can assert.
type Try struct {
	Kind      Kind
	Tool      string
	Arguments json.RawMessage
}

// maxTries is how many calls are tried of each kind until one does.
const maxTries = 3

// toolName matches names of tools that can stand in prompts, scripts and names of files.
var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// Tries returns calls that are worth trying on a server that lists a catalog: some of each kind.
// Of a server whose calls may reach something outside, only tools that say that they only read are
// called, and none with arguments that it has to refuse.
func Tries(c catalog.Catalog, reachesOut bool) []Try {
	var reads, writes, errors []Try
	for _, e := range c.Of(catalog.Tools).Entries {
		schema := e.Member("inputSchema")
		if !toolName.MatchString(e.Key) {
			continue
		}
		hint := string(jsontext.Member(e.Member("annotations"), "readOnlyHint"))
		args, ok := arguments(schema)
		switch {
		case !ok || reachesOut && hint != "true":
		case hint == "true" || hint == "" && readsByName(e.Key):
			reads = append(reads, Try{Read, e.Key, args})
		default:
			writes = append(writes, Try{Write, e.Key, args})
		}
		if len(required(schema)) > 0 && !reachesOut {
			errors = append(errors, Try{Error, e.Key, json.RawMessage("{}")})
		}
	}
	first := func(all []Try) []Try { return all[:min(len(all), maxTries)] }
	return slices.Concat(first(reads), first(reads), first(writes), first(errors)) // reads twice, to see what stays
}

// readsByName reports whether a tool is called like one that only reads, where it says nothing.
func readsByName(tool string) bool {
	lower := strings.ToLower(tool)
	return slices.ContainsFunc([]string{"get", "list", "read", "search", "find", "fetch", "query", "show", "describe", "lookup", "look", "echo", "count", "check", "add_numbers", "calculate", "convert"}, func(verb string) bool {
		return strings.HasPrefix(lower, verb)
	})
}

// Task is what a task is made of: a call whose outcome was seen.
type Task struct {
	Try
	Outcome evidence.Outcome
	Excerpt string // of the answer's text; empty where nothing in it is sure to stay
}

// Answer is what came of a try.
type Answer struct {
	Try
	Outcome evidence.Outcome
	Raw     json.RawMessage // a result or an error, as the server wrote it
}

// Choose returns the tasks that answers are good for: the first of each kind that ended as it has
// to, those with an excerpt before others.
func Choose(answers []Answer) (tasks []Task) {
	for _, kind := range []Kind{Read, Write, Error} {
		var best *Task
		for i, a := range answers {
			if a.Kind != kind || !a.asMeant() {
				continue
			}
			task := Task{a.Try, a.Outcome, a.excerpt(answers[i+1:])}
			if best == nil || best.Excerpt == "" && task.Excerpt != "" {
				best = &task
			}
		}
		if best != nil {
			tasks = append(tasks, *best)
		}
	}
	return tasks
}

// asMeant reports whether a try ended as its kind has to.
func (a Answer) asMeant() bool {
	if a.Kind == Error {
		return a.Outcome == evidence.OutcomeToolError || a.Outcome == evidence.OutcomeProtocolError
	}
	return a.Outcome == evidence.OutcomeOK
}

// excerpt returns a piece of the answer that is sure to stay: one that a later answer to the
// same call has too.
func (a Answer) excerpt(later []Answer) string {
	said := answerText(a.Raw)
	other := said
	again := slices.IndexFunc(later, func(b Answer) bool {
		return b.Tool == a.Tool && string(b.Arguments) == string(a.Arguments) && b.Outcome == a.Outcome
	})
	if again >= 0 {
		other = answerText(later[again].Raw)
	}
	found := excerpt(said, other, string(a.Arguments))
	if a.Kind == Error {
		found, _, _ = strings.Cut(found, ": ") // what follows tells of the arguments, or of a library
	}
	return found
}

// answerText returns the text of a tool's result, or the message of an error.
func answerText(answer json.RawMessage) string {
	var texts []string
	for content := range jsontext.Elements(jsontext.Member(answer, "content")) {
		texts = append(texts, jsontext.Text(jsontext.Member(content, "text")))
	}
	if len(texts) == 0 {
		return jsontext.Text(jsontext.Member(answer, "message"))
	}
	return strings.Join(texts, "\n")
}

const (
	minExcerpt = 2
	maxExcerpt = 60
)

// changing matches what may be another the next time: times, counts of milliseconds, ids.
var changing = regexp.MustCompile(`\d{4}-\d\d|\d\d:\d\d|\d{5,}|[0-9a-f]{8}-[0-9a-f]{4}|\b[0-9a-f]{12,}\b|\d+(\.\d+)? ?m?s\b`)

// rpcCode matches the codes of JSON-RPC's own errors, which stay.
var rpcCode = regexp.MustCompile(`-32[0-9]{3}\b`)

// excerpt returns a piece of a line that both texts have and that is likely to stay; empty where
// there is none. What the arguments have says nothing: an agent knows it without the tool.
func excerpt(said, again, arguments string) string {
	arguments = strings.ToLower(arguments)
	if data := []byte(said); jsontext.Valid(data) { // what an agent would tell of it
		said = strings.Join(leaves(data, nil), "\n")
	}
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if len(line) > maxExcerpt {
			line, _ = text.Beginning(line, maxExcerpt)
			if at := strings.LastIndexByte(line, ' '); at > minExcerpt {
				line = line[:at]
			}
		}
		if at := changing.FindStringIndex(rpcCode.ReplaceAllString(line, "-*****")); at != nil {
			line = strings.TrimSpace(line[:at[0]])
		}
		if len(line) >= minExcerpt && isHarmless(line) && strings.Contains(again, line) && strings.ContainsFunc(line, isWordy) && !strings.Contains(arguments, strings.ToLower(line)) {
			return line
		}
	}
	return ""
}

// maxLeaves is how many values of an answer are looked at.
const maxLeaves = 100

// leaves returns the strings and numbers in a JSON value, each on one line.
func leaves(value []byte, found []string) []string {
	if len(found) >= maxLeaves {
		return found
	}
	switch value = jsontext.TrimSpace(value); value[0] {
	case '{':
		for _, member := range jsontext.Members(value) {
			found = leaves(member, found)
		}
	case '[':
		for item := range jsontext.Elements(value) {
			found = leaves(item, found)
		}
	case '"':
		found = append(found, strings.Join(strings.Fields(jsontext.Text(value)), " "))
	default:
		found = append(found, string(value))
	}
	return found
}

// isWordy reports whether a character says something, unlike brackets.
func isWordy(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
