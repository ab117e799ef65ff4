package scaffold

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// field is a value in a tool's answer, with its names: the name of the field, and that name after the name of
// the thing it belongs to. For example, an id in the answer of list_issues is also an issue id.
type field struct {
	names []string
	value any
}

// maxFields is the maximum number of values from answers that are kept for arguments of later calls.
const maxFields = 500

// fieldsOf returns the values in answers that may be arguments of later calls, in order.
func fieldsOf(answers []Answer) (all []field) {
	for _, a := range answers {
		if a.Kind != Read || a.Outcome != evidence.OutcomeOK {
			continue
		}
		data := jsontext.Member(a.Raw, "structuredContent")
		if data == nil {
			data = []byte(answerText(a.Raw))
		}
		if jsontext.Valid(data) {
			all = fields(data, "", []string{nounOf(a.Tool)}, all)
			continue
		}
		for _, row := range rowsOf(string(data)) {
			for i, cell := range row.cells {
				if i < len(row.names) {
					all = add(all, cell, row.names[i], nounOf(a.Tool))
				}
			}
		}
	}
	return all
}

// fields appends the strings and numbers in a JSON value to found. key is the value's key, and things are
// names of the things that it belongs to.
func fields(value []byte, key string, things []string, found []field) []field {
	if len(found) >= maxFields {
		return found
	}
	switch value = jsontext.TrimSpace(value); value[0] {
	case '{':
		if key != "" {
			things = append(slices.Clone(things), singular(plain(key)))
		}
		for name, member := range jsontext.Members(value) {
			found = fields(member, name, things, found)
		}
	case '[':
		for item := range jsontext.Elements(value) {
			found = fields(item, key, things, found)
		}
	case '"':
		found = add(found, jsontext.Text(value), key, things...)
	case 't', 'f', 'n':
	default:
		found = add(found, json.Number(value), key, things...)
	}
	return found
}

// add appends a value with a name that belongs to things. The singular of the name also counts, for lists of
// names.
func add(found []field, value any, name string, things ...string) []field {
	name = plain(name)
	names := []string{name, singular(name)}
	for _, thing := range things {
		if thing != "" {
			names = append(names, thing+name, thing+singular(name))
			if slices.Contains(naming, name) {
				names = append(names, thing)
			}
			if name == thing || singular(name) == thing { // the items of {"issues": ["a", "b"]} are names or IDs
				names = append(names, thing+"id", thing+"name")
			}
		}
	}
	return append(found, field{names, value})
}

// naming are names of fields that identify the thing that they belong to.
var naming = []string{"name", "id", "key", "slug"}

// general are names that mean nothing without the thing that they belong to.
var general = []string{"id", "name", "key", "number", "title", "type", "value", "text", "query", "status", "count", "limit", "page", "date", "description", "content", "message"}

// find returns the first value of earlier answers that has the name and the type of an argument of a tool.
// For a string it returns a number only if there is no string.
func find(earlier []field, tool, argument, kind string) (found any, ok bool) {
	argument = plain(argument)
	wanted := []string{nounOf(tool) + argument}
	if !slices.Contains(general, argument) {
		wanted = append(wanted, argument)
	}
	for _, f := range earlier {
		if !slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(f.names, w) }) {
			continue
		}
		word, isText := f.value.(string)
		number, isNumber := f.value.(json.Number)
		if n, ok := typed(word, kind); ok && kind != "string" && kind != "" { // in a table, numbers are words
			number, isNumber = n.(json.Number)
		}
		switch {
		case isText && (kind == "string" || kind == "") && word != "" && len(word) <= maxExcerpt && isHarmless(word) && !random.MatchString(word):
			return word, true
		case isNumber && (kind == "integer" || kind == "number" || kind == ""):
			return number, true
		case isNumber && kind == "string" && !ok:
			found, ok = string(number), true
		}
	}
	return found, ok
}

// nounOf returns the subject of a tool: issue for list_issues and getIssue.
func nounOf(tool string) string {
	words := words(tool)
	if len(words) < 2 {
		return ""
	}
	return singular(strings.Join(words[1:], ""))
}

// words returns the words of a name in lower case: list_issues, list-issues and listIssues have two.
func words(name string) []string {
	var spaced strings.Builder
	small := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			r = ' '
		case unicode.IsUpper(r) && small:
			spaced.WriteByte(' ')
		}
		small = unicode.IsLower(r) || unicode.IsDigit(r)
		spaced.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(spaced.String())
}

// plain returns a name in lower case without separators between words.
func plain(name string) string { return strings.Join(words(name), "") }

// singular returns the singular of an English plural.
func singular(word string) string {
	for _, ending := range []struct{ plural, singular string }{
		{"ies", "y"}, {"sses", "ss"}, {"xes", "x"}, {"ches", "ch"}, {"shes", "sh"}, {"ss", "ss"}, {"us", "us"}, {"is", "is"}, {"s", ""},
	} {
		if stem, ok := strings.CutSuffix(word, ending.plural); ok && len(stem) > 1 {
			return stem + ending.singular
		}
	}
	return word
}

// row is a line of a text with its cells, and their names if the text has any.
type row struct{ names, cells []string }

// maxRows is the maximum number of lines read of a table.
const maxRows = 100

// rowsOf returns the lines of a text with their cells. The text may be a table, with names in the first line
// and cells separated by vertical bars, tabs, several spaces, semicolons or commas; a list of names and
// values; or plain text, where each line is one cell without a name.
func rowsOf(said string) (rows []row) {
	var lines []string
	for line := range strings.Lines(said) {
		if line = strings.Trim(strings.TrimSpace(line), "|"); strings.ContainsFunc(line, isWordy) {
			lines = append(lines, line)
		}
		if len(lines) == maxRows {
			break
		}
	}
	for _, divider := range []string{"|", "\t", "  ", ";", ","} {
		if len(lines) < 2 {
			break
		}
		names := cellsOf(lines[0], divider)
		if len(names) < 2 {
			continue
		}
		var table []row
		for _, line := range lines[1:] {
			if cells := cellsOf(line, divider); len(cells) == len(names) {
				table = append(table, row{names, cells})
			}
		}
		if len(table) == len(lines)-1 {
			return table
		}
	}
	for _, line := range lines {
		line = strings.TrimSpace(strings.TrimLeft(line, "-*•"))
		name, value, ok := strings.Cut(line, ": ")
		if ok && len(lines) > 1 && len(words(name)) <= 3 && strings.ContainsFunc(value, isWordy) {
			rows = append(rows, row{[]string{name}, []string{strings.TrimSpace(value)}})
			continue
		}
		rows = append(rows, row{nil, []string{line}})
	}
	return rows
}

// cellsOf returns the cells of a line.
func cellsOf(line, divider string) (cells []string) {
	for cell := range strings.SplitSeq(line, divider) {
		if cell = strings.Trim(strings.TrimSpace(cell), "*`"); cell != "" || divider != "  " {
			cells = append(cells, cell)
		}
	}
	return cells
}
