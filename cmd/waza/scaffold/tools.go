package scaffold

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/internal/yamltext"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/finding"
)

// Kind is a kind of task.
type Kind string

// Kinds of tasks, in their order.
const (
	Read  Kind = "read"  // a call of a tool that changes nothing
	Write Kind = "write" // a call of a tool that may change something
	Error Kind = "error" // a call that the tool must refuse
)

// Try is a call made during the inspection of a server, to learn what a task can assert.
type Try struct {
	Kind      Kind
	Tool      string
	Arguments json.RawMessage
	Guesses   int    // number of made-up arguments
	Does      string // the tool's description of what it does; empty if it is not safe in a prompt
	Anew      bool   // made in a new container, without effects of other calls
}

// maxTries is the maximum number of tools of each kind that are called.
const maxTries = 24

// maxRounds is the maximum number of times that a read-only tool is called with new arguments from earlier
// answers.
const maxRounds = 3

// madeUp is the placeholder for arguments that cannot be made up, in calls that the user has to complete.
const madeUp = "CHANGE ME"

// toolName matches names of tools that are safe in prompts, scripts and file names.
var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// Tries returns the next calls to try on a server with the given catalog, given the answers to earlier ones.
// It returns nil at the end. First it calls read-only tools, and again if answers provide new arguments, such
// as an ID in a list. Then it calls tools that write, each in a new container, and makes calls that must be
// refused. If calls may reach something outside, because reachesOut is true, it calls only tools that declare
// themselves read-only, and makes no calls to be refused. If only is not empty, it calls that tool and
// read-only tools.
func Tries(c catalog.Catalog, only string, reachesOut bool, made []Answer) []Try {
	var reads, writes, errors []Try
	earlier := fieldsOf(made)
	for _, e := range c.Of(catalog.Tools).Entries {
		schema := e.Member("inputSchema")
		if !toolName.MatchString(e.Key) {
			continue
		}
		hint := string(jsontext.Member(e.Member("annotations"), "readOnlyHint"))
		onlyReads := hint == "true" || hint == "" && readsByName(e.Key)
		try := Try{Tool: e.Key, Does: does(e)}
		var ok bool
		if try.Arguments, try.Guesses, ok = arguments(e.Key, schema, earlier); !ok {
			try.Arguments, ok = placeholders(schema)
		}
		switch {
		case !ok || reachesOut && hint != "true":
		case onlyReads:
			try.Kind = Read
			reads = append(reads, try)
		case only == "" || only == e.Key:
			try.Kind = Write
			writes = append(writes, try)
		}
		if len(required(schema)) > 0 && !reachesOut && only == "" {
			errors = append(errors, Try{Kind: Error, Tool: e.Key, Arguments: json.RawMessage("{}"), Does: try.Does})
		}
	}
	first := func(all []Try) []Try {
		slices.SortStableFunc(all, func(a, b Try) int {
			return cmp.Or(rank(b.Tool == only)-rank(a.Tool == only), len(Unwritten(a.Arguments))-len(Unwritten(b.Arguments)), a.Guesses-b.Guesses)
		})
		return all[:min(len(all), maxTries)]
	}
	reads = slices.DeleteFunc(first(reads), func(t Try) bool {
		tried := 0
		for _, a := range made {
			if a.Tool == t.Tool && a.Kind == t.Kind {
				if tried++; string(a.Arguments) == string(t.Arguments) {
					return true
				}
			}
		}
		return tried >= 2*maxRounds
	})
	switch {
	case len(reads) > 0:
		return slices.Concat(reads, reads) // each twice, to see which parts of the answer stay the same
	case slices.ContainsFunc(made, func(a Answer) bool { return a.Kind != Read }):
		return nil
	}
	var all []Try
	for _, try := range first(writes) {
		anew := try
		anew.Anew = true
		all = append(all, anew, try) // each twice, too
	}
	return append(all, first(errors)...)
}

// rank returns 1 for true.
func rank(is bool) int {
	if is {
		return 1
	}
	return 0
}

// does returns the first sentence of a tool's description, as an imperative. It returns only the tool's name
// if the description contains a passage that a person should review.
func does(tool catalog.Entry) string {
	said := strings.TrimSpace(jsontext.Text(tool.Member("description")))
	said, _, _ = strings.Cut(said, "\n")
	if at := sentenceEnd.FindStringIndex(said); at != nil {
		said = said[:at[0]+1]
	}
	said = strings.TrimRight(strings.TrimSpace(said), ".:")
	instructs := len(finding.InResult("tool", tool.Key, tool.Member("description")).Places) > 0
	isEnglish := !strings.ContainsFunc(said, func(r rune) bool { return r > unicode.MaxASCII })
	if said == "" || len(said) > maxDoes || !isHarmless(said) || !isEnglish || instructs {
		said = strings.Join(words(tool.Key), " ")
	}
	verb, rest, _ := strings.Cut(said, " ")
	if strings.HasSuffix(verb, "s") { // "Finds a part" becomes "find a part"
		verb = singular(verb)
	}
	said = strings.TrimSpace(verb + " " + rest)
	return strings.ToUpper(said[:1]) + said[1:]
}

// sentenceEnd matches the end of a sentence, but not of "e.g.".
var sentenceEnd = regexp.MustCompile(`[a-z0-9)"'][.!?]( [A-Z]|$)`)

// maxDoes is the maximum length of a tool's description in a prompt.
const maxDoes = 160

// readsByName reports whether the name of a tool without a hint suggests that it only reads.
func readsByName(tool string) bool {
	lower := strings.ToLower(tool)
	return slices.ContainsFunc([]string{"get", "list", "read", "search", "find", "fetch", "query", "show", "describe", "lookup", "look", "echo", "count", "check", "add_numbers", "calculate", "convert"}, func(verb string) bool {
		return strings.HasPrefix(lower, verb)
	})
}

// Omitted returns the reason why there can be no task for a tool of a server, or "" if there can be one.
func Omitted(tool catalog.Entry, reachesOut bool) string {
	switch {
	case !toolName.MatchString(tool.Key):
		return "its name cannot stand in a prompt"
	case reachesOut && string(jsontext.Member(tool.Member("annotations"), "readOnlyHint")) != "true":
		return "a call may change something outside, for it lacks the annotation readOnlyHint"
	}
	return ""
}

// Task holds the contents of a task: a call whose outcome was observed.
type Task struct {
	Try
	Outcome evidence.Outcome
	Excerpt string // part of the answer that the agent should report; empty if no part is certain
	Repeats string // part of the answer that an agent could know without the tool; the task checks it with another call
	Unsure  string // why the user has to complete the task; empty if it is complete
	Then    *Task  // a call of the same tool that is answered, after one that is refused; nil for other kinds
}

// Contains returns the texts that the agent's output must contain.
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

// Answer is the result of a try.
type Answer struct {
	Try
	Outcome evidence.Outcome
	Raw     json.RawMessage // the result or error, as the server wrote it
}

// Choose returns the tasks that answers allow: one for each tool, and one for a refused call. A tool that
// gives another answer, fails, or is missing passes none of them. If no answer is certain, the user has to
// complete the task; at most one task of each kind is incomplete. A refusal, which a broken tool may give
// too, is combined with a call that is answered.
func Choose(answers []Answer) (tasks []Task) {
	var sure []Task
	for _, kind := range []Kind{Read, Write} {
		best := map[string]Task{} // keyed by tool
		var tools []string
		for i, a := range answers {
			before := func(b Answer) bool { return b.Kind == kind && b.isOf(a) }
			if a.Kind != kind || slices.ContainsFunc(answers[:i], before) { // repeated calls are compared with the first one
				continue
			}
			task := a.task(answers[i+1:])
			known, ok := best[a.Tool]
			if !ok {
				tools = append(tools, a.Tool)
			}
			if !ok || task.doubt() < known.doubt() {
				best[a.Tool] = task
			}
		}
		slices.SortStableFunc(tools, func(a, b string) int { return best[a].doubt() - best[b].doubt() })
		for i, tool := range tools {
			task := best[tool]
			if task.Excerpt != "" {
				sure = append(sure, task)
			}
			if i == 0 || task.Unsure == "" && i < maxTasks {
				tasks = append(tasks, task)
			}
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

// ChooseFor returns the task that the answers of one tool allow.
func ChooseFor(tool string, answers []Answer) (Task, bool) {
	answers = slices.DeleteFunc(slices.Clone(answers), func(a Answer) bool { return a.Tool != tool || a.Kind == Error })
	tasks := Choose(answers)
	if len(tasks) == 0 {
		return Task{}, false
	}
	return tasks[0], true
}

// maxTasks is the maximum number of tasks for tools of a kind.
const maxTasks = 12

// task returns the task for a call that must be answered.
func (a Answer) task(later []Answer) Task {
	t := Task{Try: a.Try, Outcome: a.Outcome}
	switch {
	case Unwritten(a.Arguments) != "":
		t.Unsure = "no arguments that fit the tool's schema could be made up"
	case a.Outcome != evidence.OutcomeOK:
		t.Unsure = fmt.Sprintf("the call ended as %s when it was tried, with %s", a.Outcome, yamltext.Quoted(text.Shorten(answerText(a.Raw), maxSaid)))
		if readOnly.MatchString(answerText(a.Raw)) {
			t.Unsure += "; have the server write below /tmp, with an argument or with env in eval.yaml, or to a directory that writable names"
		}
	default:
		if t.Excerpt = a.excerpt(later); t.Excerpt == "" {
			t.Repeats = a.repeats(later)
		}
		if t.Excerpt+t.Repeats == "" {
			t.Unsure = fmt.Sprintf("no part of what the tool answered when it was tried is sure to be right: %s", yamltext.Quoted(text.Shorten(answerText(a.Raw), maxSaid)))
		}
	}
	return t
}

// readOnly matches the error of a server that writes to a place that is read-only in its container.
var readOnly = regexp.MustCompile(`(?i)read-only file ?system`)

// maxSaid is the maximum size of an answer in a comment, in bytes.
const maxSaid = 100

// doubt ranks a task by how much of it the user has to complete. Made-up arguments count least.
func (t Task) doubt() int {
	switch {
	case t.Unsure == "":
		return min(t.Guesses, 1)
	case t.Outcome == evidence.OutcomeOK:
		return 2
	case Unwritten(t.Arguments) == "":
		return 3
	}
	return 4
}

// Prompt returns the agent's prompt: what the tool does, and with which arguments.
func (t Task) Prompt() string {
	switch {
	case t.Then != nil:
		return t.Does + ", first without " + given(t.Then.Arguments) + ", and then with it. Say what the answers are."
	case len(given(t.Arguments)) > 0:
		return t.Does + ", with " + given(t.Arguments) + ". Say what the answer is."
	}
	return t.Does + ". Say what the answer is."
}

// given lists arguments for a sentence.
func given(arguments json.RawMessage) string {
	var all []string
	for name, value := range jsontext.Members(arguments) {
		all = append(all, strings.Join(words(name), " ")+" "+string(value))
	}
	return strings.Join(all, ", ")
}

// excerpt returns a part of the answer that is likely to stay the same: a later answer to the same call, if
// there is one, has it too.
func (a Answer) excerpt(later []Answer) string {
	said := answerText(a.Raw)
	other, again := a.again(later)
	if !again {
		other = said
	}
	found := excerpt(said, other, strings.Join([]string{string(a.Arguments), a.Tool, a.Does}, " "), a.Kind != Error)
	if a.Kind == Error {
		found, _, _ = strings.Cut(found, ": ") // the rest may depend on the arguments or on a library
	}
	return found
}

// isOf reports whether a and b answer the same call.
func (a Answer) isOf(b Answer) bool {
	return a.Tool == b.Tool && string(a.Arguments) == string(b.Arguments)
}

// again returns the text of a later answer to the same call. It returns false if there is none.
func (a Answer) again(later []Answer) (said string, ok bool) {
	at := slices.IndexFunc(later, func(b Answer) bool {
		return b.isOf(a) && b.Outcome == a.Outcome
	})
	if at < 0 {
		return "", false
	}
	return answerText(later[at].Raw), true
}

// member matches a member of a JSON object that has a short value.
var member = regexp.MustCompile(`"[\w. -]{1,40}"\s*:\s*("[^"\\{}]{1,40}"|-?\d[\d.]*|true)`)

// negative matches texts that say that nothing was found or done.
var negative = regexp.MustCompile(`(?i)\b(no|not|none|nothing|never|null|undefined|unknown|missing|invalid|cannot|can't|could|empty|errors?|fail(ed|ure|s)?|exception)\b`)

// affirmative matches the answer of a tool that has done what it was asked to do.
var affirmative = regexp.MustCompile(`(?i)^"?(ok|okay|done|success(ful|fully)?|true)\b`)

// repeats returns a part of the answer's text that a later answer to the same call has too: a line, or a
// member of a JSON object. It returns "" if there is none.
func (a Answer) repeats(later []Answer) string {
	said := answerText(a.Raw)
	other, again := a.again(later)
	if !again {
		return ""
	}
	pieces := strings.Split(said, "\n")
	if jsontext.Valid([]byte(said)) {
		pieces = member.FindAllString(said, -1)
	}
	for _, piece := range pieces {
		value := piece
		if found := member.FindStringSubmatch(piece); found != nil {
			value = found[1]
		}
		if piece = strings.TrimSpace(piece); len(piece) <= maxExcerpt && isHarmless(piece) && strings.Contains(other, piece) && (tells(value, "") || a.Kind == Write && affirmative.MatchString(value)) && !negative.MatchString(piece) && !changing.MatchString(piece) {
			return piece
		}
	}
	return ""
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

// changing matches texts that may change from call to call: dates, times, durations, IDs.
var changing = regexp.MustCompile(`\d{4}-\d\d|\d\d:\d\d|\b\d:\d\d\b|\d{5,}|` + randomID + `|\d+(\.\d+)? ?m?s\b|\d+ \w+ ago\b|` +
	`\b\d{1,2}/\d{1,2}/\d\d|\b\d{1,2}\.\d{1,2}\.\d{4}\b|\b\d{4}[/.]\d{1,2}[/.]\d{1,2}\b|` +
	`(?i:\b(mon|tue|wed|thu|fri|sat|sun),? (\d|` + month + `\b)|\b(mon|tues|wednes|thurs|fri|satur|sun)day\b|\b` + month + `\.? \d|\b\d{1,2}(st|nd|rd|th)?[ -]` + month + `\b)`)

// month matches the English names of months.
const month = `(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|dec(ember)?)`

// random matches IDs that a server generates at random.
var random = regexp.MustCompile(randomID)

const randomID = `[0-9a-f]{8}-[0-9a-f]{4}|\b[0-9a-f]{12,}\b`

// rpcCode matches the codes of JSON-RPC's own errors, which do not change.
var rpcCode = regexp.MustCompile(`-32[0-9]{3}\b`)

// emptyWord matches words that also occur in answers of tools that found nothing.
var emptyWord = regexp.MustCompile(`^(an?|any|are|available|could|count|data|did|does?|done|empty|entry|entries|errors?|exists?|fail(ed|ure)?|false|files?|for|found|has|have|in|is|it|items?|length|list|match(es|ed|ing)?|na|nil|no|none|not|nothing|null|of|ok(ay)?|query|records?|results?|rows?|search|status|success(ful|fully)?|that|the|there|to|total|true|undefined|unknown|was|were|with|your|zero|0+)$`)

// tells reports whether a line has a word that is not empty and not in known.
func tells(line, known string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(line), func(r rune) bool { return !isWordy(r) }) {
		if !emptyWord.MatchString(word) && !strings.Contains(known, word) {
			return true
		}
	}
	return false
}

// excerpt returns a part of a line that both texts have and that is unlikely to change, or "" if there is
// none. It ignores parts that are in known, since an agent knows them without the tool. If telling is set, it
// also ignores lines without informative words.
func excerpt(said, again, known string, telling bool) string {
	known = strings.ToLower(known)
	for _, line := range pieces(said) {
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

// pieces returns the parts of an answer that an agent would report: the values of JSON, the cells of a table,
// the values of a list of names and values, or the lines of a text.
func pieces(said string) (all []string) {
	if data := []byte(said); jsontext.Valid(data) {
		return leaves(data, nil)
	}
	for _, row := range rowsOf(said) {
		all = append(all, row.cells...)
	}
	return all
}

// maxLeaves is the maximum number of values read of an answer.
const maxLeaves = 100

// leaves appends the strings and numbers in a JSON value to found, each as one line.
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

// isWordy reports whether r is a letter or a digit.
func isWordy(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
