package recorded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/model/dialect"
)

// Digest returns a SHA-256 of a request in the form that clean stores, since a digest of the
// original could be used to confirm guesses about redacted parts. It is the same for equivalent
// requests. For a JSON object, it ignores the members in identities, replaces variable parts of
// strings (see steadyText), ignores the order in the instructions and tools (see unordered), and
// uses canonical form. Other bodies are hashed unchanged.
func Digest(clean func(w io.Writer, doc []byte) error, method, path string, body []byte) string {
	digest, _ := digested(clean, method, path, body)
	return digest
}

// digested returns the digest of a request, and the object that was hashed; nil for other bodies.
func digested(clean func(w io.Writer, doc []byte) error, method, path string, body []byte) (string, map[string]any) {
	sum := sha256.New() // writes to a hash never fail
	_, _ = io.WriteString(sum, method+"\n")
	_ = clean(sum, []byte(path))
	_, _ = io.WriteString(sum, "\n")
	var object map[string]any
	if len(body) > maxNormal {
		_ = clean(sum, body)
	} else {
		var kept bytes.Buffer
		_ = clean(&kept, body)
		if object = normal(kept.Bytes()); object == nil {
			_, _ = sum.Write(kept.Bytes())
		} else {
			_, _ = io.WriteString(sum, jsontext.Form(object))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), object
}

// maxNormal is the maximum size of a body that is normalized. Larger ones, and those with
// too many values, are hashed unchanged.
const maxNormal = 16 << 20

// identities returns the members of a request's object that identify the user or the conversation
// and that models do not see.
func identities() []string {
	return []string{"client_metadata", "metadata", "prompt_cache_key", "safety_identifier", "session_id", "user", "user_prompt_id"}
}

// normal returns the object of a body without its variable parts, or nil if the body is not an
// object.
func normal(body []byte) map[string]any {
	if len(body) > maxNormal || dialect.HasTooMany(body) {
		return nil
	}
	value, err := jsontext.Parse(body)
	object, ok := value.(map[string]any)
	if err != nil || !ok {
		return nil
	}
	for _, name := range identities() {
		delete(object, name)
	}
	steady(object)
	for name, member := range object {
		messages, is := member.([]any)
		if !is || !slices.Contains(conversations(), name) {
			object[name] = unordered(member)
			continue
		}
		for i, message := range messages {
			if fields, _ := message.(map[string]any); fields["role"] == "system" || fields["role"] == "developer" {
				messages[i] = unordered(message)
			}
		}
	}
	return object
}

// conversations returns the members of requests that contain the messages, by API. A conversation's
// instructions and tools are in the other members, and in messages of the system and the developer.
func conversations() []string { return []string{"messages", "input", "contents"} }

// unordered returns v with its lists of names and of named items sorted, the lines of its strings
// sorted, and quoted names within a line sorted. Agents list tools and skills in the order in which
// servers answer and directories are read.
func unordered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = unordered(item)
		}
	case []any:
		for i, item := range v {
			v[i] = unordered(item)
		}
		slices.SortStableFunc(v, func(a, b any) int { return strings.Compare(nameOf(a), nameOf(b)) })
	case string:
		lines := strings.Split(v, "\n")
		for i, line := range lines {
			lines[i] = sortQuoted(line)
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	return v
}

// nameOf returns the name of a list's item: the item itself, or its name in the form of any API; ""
// for other items.
func nameOf(item any) string {
	name := item
	if fields, is := item.(map[string]any); is {
		if function, is := fields["function"].(map[string]any); is {
			fields = function
		}
		name = fields["name"]
	}
	text, _ := name.(string)
	return text
}

// sortQuoted sorts the names of each list in a line whose names stand in quotes or backticks.
func sortQuoted(line string) string {
	if !strings.Contains(line, "', '") && !strings.Contains(line, `", "`) && !strings.Contains(line, "`, `") {
		return line
	}
	return quotedNames.ReplaceAllStringFunc(line, func(names string) string {
		return strings.Join(slices.Sorted(strings.SplitSeq(names, ", ")), ", ")
	})
}

// quotedNames matches a list of names in quotes or backticks.
var quotedNames = regexp.MustCompile("['\"`][\\w.-]+['\"`](?:, ['\"`][\\w.-]+['\"`])+")

// steady returns v with the variable parts of its strings replaced, results of parallel calls in a
// fixed order, and without cache markers, which models do not see. Other members are kept.
func steady(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			mark, _ := item.(map[string]any)
			if key == "cache_control" && mark["type"] == "ephemeral" {
				delete(v, key)
				continue
			}
			v[key] = steady(item)
		}
	case []any:
		for i, item := range v {
			v[i] = steady(item)
		}
		sortResults(v)
	case string:
		return steadyText(v)
	}
	return v
}

// sortResults sorts each series of tool results in a list by the ids of their calls, since agents
// send them in the order of their arrival.
func sortResults(list []any) {
	for from := 0; from < len(list); from++ {
		to := from
		for to < len(list) && resultOf(list[to]) != "" {
			to++
		}
		slices.SortStableFunc(list[from:to], func(a, b any) int { return strings.Compare(resultOf(a), resultOf(b)) })
		from = to
	}
}

// resultOf returns the id of the call that an item of a list is the result of, in the form of any
// API; "" for other items.
func resultOf(item any) string {
	fields, _ := item.(map[string]any)
	kind, _ := fields["type"].(string)
	id := fields["call_id"]
	response, isResponse := fields["functionResponse"].(map[string]any)
	switch {
	case kind == "tool_result":
		id = fields["tool_use_id"]
	case fields["role"] == "tool":
		id = fields["tool_call_id"]
	case isResponse:
		id = response["id"]
	case !strings.HasSuffix(kind, "_call_output"):
		return ""
	}
	text, _ := id.(string)
	return text
}

// steadyText returns text with its variable parts replaced by words: UUIDs, dates such as
// 2006-01-02 or Mon Jan 2 2006, with or without a time, ports of this machine, the release of its
// Linux kernel, and the durations that Codex reports for tools. Paths in a sandbox without isolation
// become those in a container.
func steadyText(text string) string {
	if strings.Contains(text, "Wall time: ") {
		text = wallTime.ReplaceAllString(text, "Wall time: TIME seconds")
	}
	if strings.Contains(text, "Linux ") {
		text = kernel.ReplaceAllString(text, "Linux ${1}RELEASE")
	}
	return replaced(replaced(text, "-:", varyingAt), " ", writtenDateAt)
}

// replaced returns text with words in place of the parts that find finds around one of the
// characters in at.
func replaced(text, at string, find func(text string, i int) (start, end int, word string)) string {
	var out strings.Builder
	done := 0
	for i := 0; i < len(text); {
		next := strings.IndexAny(text[i:], at)
		if next < 0 {
			break
		}
		i += next
		start, end, word := find(text, i)
		if end == 0 || start < done {
			i++
			continue
		}
		out.WriteString(text[done:start])
		out.WriteString(word)
		done, i = end, end
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

var wallTime = regexp.MustCompile(`\bWall time: [0-9.]+ seconds\b`)

// kernel matches a kernel's release as Claude Code reports it, and as uname does, after the host's name.
var kernel = regexp.MustCompile(`\bLinux ([\w.-]+ )?[0-9]+\.[0-9]+\.[0-9]+[\w.+~-]*`)

// dayAndMonth matches a day and month at the end of a text, before a year.
var dayAndMonth = regexp.MustCompile(`\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?` +
	`(?:` + month + ` \d{1,2}|\d{1,2} ` + month + `),?$`)

const month = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}`

// maxDate is more than the length of the longest match of dayAndMonth.
const maxDate = 32

// writtenDateAt finds a date in words, given the index i of the space before its year.
func writtenDateAt(text string, i int) (start, end int, word string) {
	if !fits(text, i+1, "0000") || fits(text, i+5, "0") {
		return 0, 0, ""
	}
	before := text[max(0, i-maxDate):i]
	found := dayAndMonth.FindStringIndex(before)
	if found == nil {
		return 0, 0, ""
	}
	return i - len(before) + found[0], timeBehind(text, i+5), "DATE"
}

// sandboxAt finds the directory of a sandbox without isolation, TMPDIR/waza-USER/RUN/TRIAL, given
// the index i of its hyphen.
func sandboxAt(text string, i int) (start, end int) {
	if !strings.HasSuffix(text[:i], "/waza") {
		return 0, 0
	}
	for start = i; start > max(0, i-maxPath) && (text[start-1] == '/' || isNameByte(text[start-1])); start-- {
	}
	for end = i + 1; fits(text, end, "0"); end++ {
	}
	for range 2 {
		slash := end
		if !fits(text, slash, "/") {
			return 0, 0
		}
		for end++; end < len(text) && isNameByte(text[end]); end++ {
		}
		if end == slash+1 {
			return 0, 0
		}
	}
	return start, end
}

// maxPath is the maximum length of a sandbox's directory before its hyphen, in bytes.
const maxPath = 256

func isNameByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

// varyingAt finds the variable part around the hyphen or colon at i; end is 0 if there is none.
func varyingAt(text string, i int) (start, end int, word string) {
	if text[i] == ':' {
		return portAt(text, i)
	}
	if start, end = sandboxAt(text, i); end > 0 {
		return start, end, ""
	}
	if start = i - 8; fits(text, start, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
		return start, start + 36, "UUID"
	}
	if start = i - 4; fits(text, start, "0000-00-00") && !fits(text, start-1, "0") {
		return start, timeBehind(text, start+10), "DATE"
	}
	return 0, 0, ""
}

// timeBehind returns the end of a date whose day ends at i, including the following time if there
// is one.
func timeBehind(text string, i int) int {
	if !fits(text, i, "T00:00") && !fits(text, i, " 00:00") {
		return i
	}
	i += 6
	if fits(text, i, ":00") {
		i += 3
		if fits(text, i, ".0") {
			for i++; fits(text, i, "0"); i++ {
			}
		}
	}
	switch {
	case fits(text, i, "Z"):
		i++
	case fits(text, i, "+00:00"), fits(text, i, "-00:00"):
		i += 6
	}
	return i
}

// portAt finds the port in an address of this machine, given the index i of its colon.
func portAt(text string, i int) (start, end int, word string) {
	if !strings.HasSuffix(text[:i], "127.0.0.1") && !strings.HasSuffix(text[:i], "localhost") {
		return 0, 0, ""
	}
	for end = i + 1; fits(text, end, "0"); end++ {
	}
	if end == i+1 {
		return 0, 0, ""
	}
	return i + 1, end, "PORT"
}

// fits reports whether text matches a pattern at i. In the pattern, 0 is a digit, x a hexadecimal
// digit, and other bytes match themselves.
func fits(text string, i int, pattern string) bool {
	if i < 0 || i+len(pattern) > len(text) {
		return false
	}
	for n := range len(pattern) {
		c := text[i+n]
		digit := c >= '0' && c <= '9'
		switch pattern[n] {
		case '0':
			if !digit {
				return false
			}
		case 'x':
			if lower := c | 0x20; !digit && (lower < 'a' || lower > 'f') {
				return false
			}
		case c:
		default:
			return false
		}
	}
	return true
}
