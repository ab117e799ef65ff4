package strictyaml_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// read returns the value of a document as JSON.
func read(text string) (json.RawMessage, error) {
	doc, err := strictyaml.Parse("f.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	var raw json.RawMessage
	doc.Decode(&raw)
	return raw, doc.Err()
}

// TestValues reads texts whose value the specification of YAML 1.2.2 gives, in a chapter or by its
// grammar, and that parsers are known to read otherwise.
func TestValues(t *testing.T) {
	for text, want := range map[string]string{
		"a: \"x\r\n  y\"":                           `{"a":"x y"}`, // 7.3.1: a break in quotes is a space
		"a: 'x\r\n\r\n\r\n  y'":                     `{"a":"x\n\ny"}`,
		"a: x\r\n  y\r\n\r\n  z\r\n":                `{"a":"x y\nz"}`,
		"a: \"x\r  y\"\rb: |\r  z\r":                `{"a":"x y","b":"z\n"}`, // 5.4: a lone CR is a break
		"a: x\ty":                                   `{"a":"x\ty"}`,
		"a: x\t \ty # z":                            `{"a":"x\t \ty"}`,
		"a: \"x\ty\"":                               `{"a":"x\ty"}`,
		"a: 'x\t\n\t y'":                            `{"a":"x y"}`,
		"a:\tx":                                     `{"a":"x"}`,
		"a: |-\n  x \t\n\n":                         `{"a":"x \t"}`,  // 8.1.1.2: only breaks are stripped
		"a: |-\n  x\n  \t\n":                        `{"a":"x\n\t"}`, // a tab is text
		"a: >\n  x\n  y\n\n  z\n\n":                 `{"a":"x y\nz\n"}`,
		"a: >\n  x\n   y\n  z\n":                    `{"a":"x\n y\nz\n"}`, // 8.1.3: a line with more indent is kept
		"a: |2\n   x\n":                             `{"a":" x\n"}`,
		"a: |+\n  x\n\n":                            `{"a":"x\n\n"}`,
		"a: \"x \\\n  y\\\n  \\ z\"":                `{"a":"x y z"}`,
		"a: x\u2028y\u0085z\u2029":                  `{"a":"x\u2028y` + "\u0085" + `z\u2029"}`, // 5.4: not breaks since 1.2
		"a: |\n  x\u2028y\n":                        `{"a":"x\u2028y\n"}`,
		"a: 'x\u2028\U0010fffd\U0010fffc'":          `{"a":"x\u2028` + "\U0010fffd\U0010fffc" + `"}`,
		"\ufeffa: x":                                `{"a":"x"}`,
		"%YAML 1.2\n---\na: x\n...\n":               `{"a":"x"}`,
		"# c\r\n\r\n%YAML 1.1 # d\r\n--- x":         `"x"`,
		"a: |\n  %YAML 1.2\n":                       `{"a":"%YAML 1.2\n"}`,
		"a: \"x\ufeffy\x7f\u009f\uffff\"":           `{"a":"x` + "\ufeffy\x7f\u009f\uffff" + `"}`, // 5.1: what JSON allows
		"[a: [x:1, http://y/z, b: 4], c]":           `[{"a":["x:1","http://y/z",{"b":4}]},"c"]`,
		"a: [\n  x\n  y,\n# c\n  z ]":               `{"a":["x y","z"]}`,
		"{a, b: , \"c\":1, ? d}":                    `{"a":null,"b":null,"c":1,"d":null}`,
		"a: x#y":                                    `{"a":"x#y"}`,
		"- - x\n  - y\n-\n  - z":                    `[["x","y"],["z"]]`,
		"a:\n- x\nb:\n  - y":                        `{"a":["x"],"b":["y"]}`,
		"[yes, No, on, y, True, FALSE]":             `["yes","No","on","y",true,false]`, // 10.3.2
		"[~, null, Null, NULL, '', 'null']":         `[null,null,null,null,"","null"]`,
		"[1:30, 2024-01-01, 1.2.3, 1e, .]":          `["1:30","2024-01-01","1.2.3","1e","."]`,
		"[1e3, -0, 1.50, .5, -.5e-3]":               `[1e3,-0,1.50,0.5,-0.5e-3]`,
		"a: &x {k: 1}\nb: *x\nc: {<<: *x, '<<': 2}": `{"a":{"k":1},"b":{"k":1},"c":{"<<":2,"k":1}}`,
		"&k a: 1\n? b\n: *k":                        `{"a":1,"b":"a"}`,
	} {
		if got, err := read(text); err != nil || string(got) != want {
			t.Errorf("%q\n got %s, %v\nwant %s", text, got, err, want)
		}
	}
}

// TestWritten writes values in the ways that YAML has, and reads them back.
func TestWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := writer{t}
		want := w.value(3)
		text := w.one("---", "%YAML 1.2\n---", "", "") + w.block(want, -1)
		if text[0] != '-' && text[0] != '%' {
			text = strings.TrimPrefix(text, " ")
		}
		text += w.ended(text) + w.one("", "# end")
		text = w.one("", "\ufeff") + strings.ReplaceAll(text, "\n", w.one("\n", "\r\n", "\r"))
		raw, err := read(text)
		if err != nil {
			if want == nil && strings.Contains(err.Error(), "the file is empty") {
				return
			}
			t.Fatalf("%q\nwant %#v\n%v", text, want, err)
		}
		var got any
		if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q\n got %#v\nwant %#v", text, got, want)
		}
	})
}

// writer writes values as YAML, in ways that it draws.
type writer struct{ t *rapid.T }

func (w writer) pick(n int) int { return rapid.IntRange(0, n-1).Draw(w.t, "pick") }

func (w writer) one(of ...string) string { return of[w.pick(len(of))] }

func (w writer) value(depth int) any {
	kinds := 5
	if depth == 0 {
		kinds = 3
	}
	switch w.pick(kinds) {
	case 0, 1:
		return w.words()
	case 2:
		return [...]any{nil, true, false, 0.0, -1.5, 12e30}[w.pick(6)]
	case 3:
		list := make([]any, w.pick(4))
		for i := range list {
			list[i] = w.value(depth - 1)
		}
		return list
	default:
		mapping := map[string]any{}
		for range w.pick(4) {
			mapping[w.words()] = w.value(depth - 1)
		}
		return mapping
	}
}

func (w writer) words() (s string) {
	for range w.pick(9) {
		s += w.one("a", "b", "c", " ", "  ", "\n", "\n\n", "\t", ":", ": ", "#", "-", "- ", "?", "'", `"`, `\`, "{", "],", "é", "\U0001f600",
			"\u2028", "\u0085", "\u00a0", "%", "@", "&", "*", "!", "|", ">", "1", ".", "null", "true", "---", "...", "\r", "\x1b", "\ufeff")
	}
	return s
}

// gap is what may stand before a line break outside of texts.
func (w writer) gap() string {
	return w.one("", "", "", " ", "\t", " # c: [", "\n", "\n  \n# c\n") + "\n"
}

// block returns a value after a dash or a colon that is at column parent, or at the beginning of a
// document, where that is -1.
func (w writer) block(v any, parent int) string {
	indent := parent + 1 + w.pick(3)
	pad := strings.Repeat(" ", indent)
	var b strings.Builder
	switch v := v.(type) {
	case []any:
		if len(v) == 0 || w.pick(3) == 0 {
			break
		}
		b.WriteString(w.gap())
		for i, item := range v {
			if i > 0 {
				b.WriteString(w.ended(b.String()))
			}
			b.WriteString(pad + "-" + w.block(item, indent))
		}
		return b.String()
	case map[string]any:
		if len(v) == 0 || w.pick(3) == 0 {
			break
		}
		b.WriteString(w.gap())
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteString(w.ended(b.String()))
			}
			b.WriteString(pad + w.key(key) + w.one(":", ":", " :") + w.block(v[key], indent))
		}
		return b.String()
	case string:
		if written, ok := w.literal(v, pad, parent); ok && w.pick(2) == 0 {
			return w.one(" ", "  ") + written
		}
	}
	return w.one(" ", "  ", w.gap()+pad+" ") + w.flow(v, pad+" ")
}

// ended returns what ends the line that text leaves open.
func (w writer) ended(text string) string {
	if strings.HasSuffix(text, "\n") {
		return ""
	}
	return w.gap()
}

func (w writer) key(s string) string {
	if isPlain(s) && w.pick(2) == 0 {
		return s
	}
	if isShown(s) && !strings.Contains(s, "\n") && w.pick(2) == 0 {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return w.doubleQuoted(s, "", false)
}

// flow returns a value on one line, or on several that begin with pad.
func (w writer) flow(v any, pad string) string {
	gap := func() string { return w.one("", "", " ", "\t", "\n"+pad, " # c\n\n"+pad) }
	switch v := v.(type) {
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = gap() + w.flow(item, pad) + gap()
		}
		return "[" + strings.Join(parts, ",") + w.comma(len(v)) + gap() + "]"
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, gap()+w.key(key)+w.one(": ", ":\n"+pad)+w.flow(v[key], pad)+gap())
		}
		return "{" + strings.Join(parts, ",") + w.comma(len(v)) + gap() + "}"
	case string:
		switch {
		case isPlain(v) && w.pick(2) == 0:
			return w.folded(v, pad)
		case isShown(v) && !beside.MatchString(v) && w.pick(2) == 0:
			return "'" + w.folded(strings.ReplaceAll(v, "'", "''"), pad) + "'"
		}
		return w.doubleQuoted(v, pad, true)
	case nil:
		return w.one("~", "null", "Null", "NULL")
	case bool:
		return map[bool]string{true: w.one("true", "True", "TRUE"), false: w.one("false", "False", "FALSE")}[v]
	}
	data, _ := json.Marshal(v)
	return string(data)
}

func (w writer) comma(length int) string {
	if length == 0 {
		return ""
	}
	return w.one("", ",")
}

// isShown reports whether s can stand in single quotes.
func isShown(s string) bool { return !strings.ContainsAny(s, "\r\x1b\ufeff") }

var (
	plainText = regexp.MustCompile(`^[a-cé\x{1f600}][a-cé\x{1f600}\x{2028}\x{85}\x{a0}\t .:#'"\\%@&*!|>1-]*$`)
	beside    = regexp.MustCompile(`[\t ]\n|\n[\t ]`) // blanks that would be lost
	otherwise = regexp.MustCompile(`:([\t ]|$)|[\t ]#|[\t ]$`)
)

// isPlain reports whether s can stand without quotes, in brackets too.
func isPlain(s string) bool { return plainText.MatchString(s) && !otherwise.MatchString(s) }

// folded returns text with breaks in place of some single spaces, and in place of each line break one
// more.
func (w writer) folded(s, pad string) string {
	var b strings.Builder
	runes := []rune(s)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		between := i > 0 && i+1 < len(runes) && !strings.ContainsRune(" \t\n", runes[i-1]) && !strings.ContainsRune(" \t\n#", runes[i+1]) && runes[i-1] != ':'
		switch {
		case r == '\n':
			for ; i+1 < len(runes) && runes[i+1] == '\n'; i++ {
				b.WriteString("\n" + w.one("", pad))
			}
			b.WriteString("\n" + w.one("", pad, pad+"\t") + "\n" + pad)
		case r == ' ' && between && w.pick(3) == 0:
			b.WriteString(w.one("", " ", "\t") + "\n" + pad + w.one("", " ", "\t"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// doubleQuoted returns s in double quotes, over several lines if it may be.
func (w writer) doubleQuoted(s, pad string, lines bool) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case lines && w.pick(8) == 0:
			b.WriteString("\\\n" + pad) // a break that is none
			fallthrough
		case strings.ContainsRune("\"\\\n\r\x1b\ufeff", r) || w.pick(4) == 0 || (i == 0 || lines) && strings.ContainsRune(" \t", r):
			fmt.Fprintf(&b, "\\U%08X", r)
		default:
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

// literal returns s as a literal block scalar with lines that begin with pad, if it can be one.
func (w writer) literal(s, pad string, parent int) (string, bool) {
	body := strings.TrimRight(s, "\n")
	ends := len(s) - len(body)
	if !isShown(s) || body == "" {
		return "", false
	}
	if pad == "" {
		pad = " "
	}
	indent := ""
	switch {
	case parent >= 0 && w.pick(2) == 0:
		indent = fmt.Sprint(len(pad) - parent)
	case strings.ContainsAny(body[:1], " \t\n"):
		return "", false
	}
	chomp := [...]string{"-", "", "+"}[min(ends, 2)]
	var b strings.Builder
	for line := range strings.SplitSeq(body, "\n") {
		if line != "" {
			line = pad + line
		}
		b.WriteString(line + "\n")
	}
	b.WriteString(strings.Repeat("\n", max(0, ends-1)))
	return "|" + w.one(indent+chomp, chomp+indent) + w.one("", " # c") + "\n" + b.String(), true
}

// TestSecondParser compares the values of random documents with those that Python's yaml reads. It reads
// YAML 1.1, so documents leave out what 1.2 changed: U+0085 and others as line breaks, and lone CRs.
func TestSecondParser(t *testing.T) {
	const program = `
import json, sys, yaml
def read(text):
    try: return {"value": yaml.load(text, Loader=yaml.BaseLoader)}
    except (yaml.YAMLError, RecursionError, ValueError, TypeError): return None
json.dump([read(t) for t in json.load(sys.stdin)], sys.stdout)`
	if err := exec.CommandContext(t.Context(), "python3", "-c", "import yaml").Run(); err != nil {
		t.Skip("python3 has no yaml here")
	}
	piece := rapid.SampledFrom([]string{
		"a", "b: ", "c", "\n", "\n", "\n  ", "\n  ", "\n    ", "\n- ", "\n  - ", ": ", ":", ":\n  ", " ", "  ", "\t", "#", " # x\n", "'", "''", `"`, `\n`, "\\\n",
		"[", "]", "{", "}", ", ", ",", "|\n  ", "|-\n  ", "|+\n ", ">\n  ", ">-\n  ", "|2\n  ", "&x ", "*x", "? ", "-", "\r\n", "\r\n  ", "1", "é", "---\n", "...\n", "%",
	})
	document := rapid.SliceOfN(piece, 1, 24)
	texts := make([]string, 5000)
	for i := range texts {
		texts[i] = strings.Join(document.Example(i), "")
		if i%2 == 0 {
			texts[i] = "k: " + texts[i]
		}
		texts[i] = strings.TrimRight(texts[i], " \t") // whether blanks without a break after them are a line
	}
	input, _ := json.Marshal(texts)
	cmd := exec.CommandContext(t.Context(), "python3", "-c", program)
	cmd.Stdin = bytes.NewReader(input)
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var theirs []*struct{ Value any }
	if err := json.Unmarshal(output, &theirs); err != nil {
		t.Fatal(err)
	}
	both := 0
	for i, text := range texts {
		raw, err := read(text)
		if err != nil || theirs[i] == nil {
			continue
		}
		both++
		in := json.NewDecoder(bytes.NewReader(raw))
		in.UseNumber()
		var ours any
		if err := in.Decode(&ours); err != nil || !alike(ours, theirs[i].Value) {
			t.Errorf("%q\n got %#v\nthey %#v, %v", text, ours, theirs[i].Value, err)
		}
	}
	t.Logf("%d of %d documents are read by both", both, len(texts))
	if both < len(texts)/20 {
		t.Errorf("only %d documents are read by both", both)
	}
}

// alike reports whether a value is one whose scalars are all strings, as written.
func alike(ours, theirs any) bool {
	switch ours := ours.(type) {
	case nil:
		return theirs == "" || theirs == nil
	case json.Number:
		return theirs == ours.String()
	case []any:
		list, ok := theirs.([]any)
		for i := range ours {
			ok = ok && len(list) == len(ours) && alike(ours[i], list[i])
		}
		return ok
	case map[string]any:
		mapping, ok := theirs.(map[string]any)
		for key := range ours {
			ok = ok && len(mapping) == len(ours) && alike(ours[key], mapping[key])
		}
		return ok
	}
	return ours == theirs
}
