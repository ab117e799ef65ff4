package scaffold

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/internal/yamltext"
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
const maxTries = 6

// madeUp stands for arguments that cannot be made up, in calls that a person has to complete.
const madeUp = "CHANGE ME"

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
		if !ok {
			args, ok = placeholders(schema)
		}
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
	first := func(all []Try) []Try {
		slices.SortStableFunc(all, func(a, b Try) int { return len(Unwritten(a.Arguments)) - len(Unwritten(b.Arguments)) })
		return all[:min(len(all), maxTries)]
	}
	return slices.Concat(first(reads), first(reads), first(writes), first(errors)) // reads twice, to see what stays
}

// readsByName reports whether a tool is called like one that only reads, where it says nothing.
func readsByName(tool string) bool {
	lower := strings.ToLower(tool)
	return slices.ContainsFunc([]string{"get", "list", "read", "search", "find", "fetch", "query", "show", "describe", "lookup", "look", "echo", "count", "check", "add_numbers", "calculate", "convert"}, func(verb string) bool {
		return strings.HasPrefix(lower, verb)
	})
}

// Omitted returns why there can be no task for a tool of a server, or "" if there can.
func Omitted(tool catalog.Entry, reachesOut bool) string {
	switch {
	case !toolName.MatchString(tool.Key):
		return "its name cannot stand in a prompt"
	case reachesOut && string(jsontext.Member(tool.Member("annotations"), "readOnlyHint")) != "true":
		return "a call may change something outside, for it lacks the annotation readOnlyHint"
	}
	return ""
}

// Task is what a task is made of: a call whose outcome was seen.
type Task struct {
	Try
	Outcome evidence.Outcome
	Excerpt string // of the answer's text; empty where nothing in it is sure to be right
	Unsure  string // why a person has to complete the task; empty if it is complete
	Then    *Task  // after a call that is refused, one of the same tool that is answered; nil for other kinds
}

// Contains returns what the answer has to contain.
func (t Task) Contains() []string {
	all := []string{}
	for ; t.Unsure == ""; t = *t.Then {
		if t.Excerpt != "" {
			all = append(all, t.Excerpt)
		}
		if t.Then == nil {
			return all
		}
	}
	return append(all, madeUp+": what a right answer holds")
}

// Answer is what came of a try.
type Answer struct {
	Try
	Outcome evidence.Outcome
	Raw     json.RawMessage // a result or an error, as the server wrote it
}

// Choose returns the tasks that answers are good for: one for the tools that read, one for those that
// write, and one for a call that was refused. None is passed by a tool that answers something else,
// fails, or is gone: where no answer is sure to be right, a person has to complete the task, and a
// refusal, which a broken tool may give too, goes with a call that is answered.
func Choose(answers []Answer) (tasks []Task) {
	var sure []Task
	for _, kind := range []Kind{Read, Write} {
		var best *Task
		for i, a := range answers {
			if a.Kind != kind {
				continue
			}
			task := a.task(answers[i+1:])
			if task.Unsure == "" {
				sure = append(sure, task)
			}
			if best == nil || task.doubt() < best.doubt() {
				best = &task
			}
		}
		if best != nil {
			tasks = append(tasks, *best)
		}
	}
	for _, a := range answers {
		if a.Kind != Error || a.Outcome != evidence.OutcomeToolError && a.Outcome != evidence.OutcomeProtocolError {
			continue
		}
		said := answerText(a.Raw)
		then := slices.IndexFunc(sure, func(t Task) bool { return t.Tool == a.Tool && !strings.Contains(said, t.Excerpt) })
		if then >= 0 {
			return append(tasks, Task{Try: a.Try, Outcome: a.Outcome, Excerpt: a.excerpt(nil), Then: &sure[then]})
		}
	}
	return tasks
}

// task returns the task for a call that has to be answered.
func (a Answer) task(later []Answer) Task {
	t := Task{Try: a.Try, Outcome: a.Outcome}
	switch {
	case Unwritten(a.Arguments) != "":
		t.Unsure = "no arguments that fit the tool's schema could be made up"
	case a.Outcome != evidence.OutcomeOK:
		t.Unsure = fmt.Sprintf("the call ended as %s when it was tried, with %s", a.Outcome, yamltext.Quoted(text.Shorten(answerText(a.Raw), maxSaid)))
	default:
		if t.Excerpt = a.excerpt(later); t.Excerpt == "" {
			t.Unsure = fmt.Sprintf("no part of what the tool answered when it was tried is sure to be right: %s", yamltext.Quoted(text.Shorten(answerText(a.Raw), maxSaid)))
		}
	}
	return t
}

// maxSaid is how much of an answer stands in a comment.
const maxSaid = 100

// doubt returns how much of a task a person has to complete, as a rank.
func (t Task) doubt() int {
	switch {
	case t.Unsure == "":
		return 0
	case t.Outcome == evidence.OutcomeOK:
		return 1
	case Unwritten(t.Arguments) == "":
		return 2
	}
	return 3
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
	found := excerpt(said, other, string(a.Arguments)+" "+a.Tool, a.Kind == Read)
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

// emptyWord matches words that a tool answers too when it has found nothing.
var emptyWord = regexp.MustCompile(`^(an?|any|are|available|could|count|data|did|does?|done|empty|entry|entries|errors?|exists?|fail(ed|ure)?|false|files?|for|found|has|have|in|is|it|items?|length|list|match(es|ed|ing)?|na|nil|no|none|not|nothing|null|of|ok(ay)?|query|records?|results?|rows?|search|status|success(ful|fully)?|that|the|there|to|total|true|undefined|unknown|was|were|with|your|zero|0+)$`)

// tells reports whether a line has a word that is neither empty nor known before the call.
func tells(line, known string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(line), func(r rune) bool { return !isWordy(r) }) {
		if !emptyWord.MatchString(word) && !strings.Contains(known, word) {
			return true
		}
	}
	return false
}

// excerpt returns a piece of a line that both texts have and that is likely to stay; empty where
// there is none. What is known before the call says nothing: an agent knows it without the tool. For
// answers that have to tell something, telling gives no line that tells nothing.
func excerpt(said, again, known string, telling bool) string {
	known = strings.ToLower(known)
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
		if len(line) >= minExcerpt && isHarmless(line) && strings.Contains(again, line) && strings.ContainsFunc(line, isWordy) && !strings.Contains(known, strings.ToLower(line)) && (!telling || tells(line, known)) {
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
