package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/waza-isolate/waza/test/attacks/part"
)

// habit is a lenient way for a server to parse JSON.
type habit string

const (
	firstWins  habit = "first"  // the first of two values of a key wins
	ignoreCase habit = "case"   // keys are case-insensitive
	endAtNUL   habit = "nul"    // strings end at NUL, and the first value wins
	dropBytes  habit = "drop"   // invalid UTF-8 is dropped
	byHeader   habit = "header" // the tool is that of the Mcp-Name header
)

// loose is an HTTP server that parses each request as the sender wants it to, and logs to
// stderr what it executed.
func loose() error {
	http.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		var in io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			in, _ = gzip.NewReader(in)
		}
		body, err := io.ReadAll(in)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if params["charset"] == "utf-7" {
			body = fromUTF7(body)
		}
		for _, m := range messages(body) {
			m.header = r.Header.Get("Mcp-Name")
			if m.mark() == "endless-comments" {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, strings.Repeat(":\n", comments)+"data: ")
				_, _ = io.WriteString(w, m.answer()+"\n\n")
				continue
			}
			if m.mark() == part.SlowReader {
				_, _ = io.WriteString(w, largeAnswer())
				continue
			}
			_, _ = io.WriteString(w, m.answer())
		}
	})
	return http.ListenAndServe(":"+strconv.Itoa(part.Port), nil)
}

// comments is the number of SSE comments sent, which is more than a server is allowed.
const comments = 110_000

// message is a message as the server parses it.
type message struct {
	fields map[string]any
	raw    []byte
	header string
}

// messages parses a body with the habit that it names.
func messages(body []byte) []message {
	how := firstMatch(habits, body)
	if how == string(dropBytes) {
		body = bytes.ToValidUTF8(body, nil)
	}
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	value, err := read(in, habit(how))
	if err != nil {
		return nil
	}
	all, batch := value.([]any)
	if !batch {
		all = []any{value}
	}
	var found []message
	for _, one := range all {
		if fields, ok := one.(map[string]any); ok {
			found = append(found, message{fields: fields, raw: body})
		}
	}
	return found
}

var (
	habits = regexp.MustCompile(`"habit":"([a-z]+)"`)
	marks  = regexp.MustCompile(`"mark":"([a-z0-9-]+)"`)
)

func firstMatch(pattern *regexp.Regexp, body []byte) string {
	if found := pattern.FindSubmatch(body); found != nil {
		return string(found[1])
	}
	return ""
}

func (m message) mark() string { return firstMatch(marks, m.raw) }

// answer executes the message and returns the response, or "" if none is due.
func (m message) answer() string {
	id, asks := m.fields["id"]
	if !asks {
		return ""
	}
	quoted, _ := json.Marshal(id) // decoded from JSON
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, quoted, m.result())
}

func (m message) result() string {
	params, _ := m.fields["params"].(map[string]any)
	switch m.fields["method"] {
	case "initialize":
		return `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"loose","version":"1"}}`
	case "tools/list":
		return fmt.Sprintf(`{"tools":[{"name":%q,"inputSchema":{"type":"object"}},{"name":%q,"inputSchema":{"type":"object"}}]}`, part.Shown, part.Kept)
	case "tools/call":
		arguments, _ := params["arguments"].(map[string]any)
		tool, path := fmt.Sprint(params["name"]), fmt.Sprint(arguments["path"])
		if firstMatch(habits, m.raw) == string(byHeader) {
			tool = m.header
		}
		fmt.Fprintln(os.Stderr, part.Ran(tool, path, m.mark()))
		return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, "done")
	}
	return `{}`
}

// read reads a value token by token, since encoding/json would reject or merge duplicate
// keys.
func read(in *json.Decoder, how habit) (any, error) {
	token, err := in.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return readObject(in, how)
	case json.Delim('['):
		var all []any
		for in.More() {
			v, err := read(in, how)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		_, err := in.Token()
		return all, err
	}
	if text, ok := token.(string); ok && how == endAtNUL {
		token, _, _ = strings.Cut(text, "\x00")
	}
	return token, nil
}

func readObject(in *json.Decoder, how habit) (any, error) {
	object := map[string]any{}
	for in.More() {
		token, err := in.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		switch how {
		case ignoreCase:
			key = strings.ToLower(key)
		case endAtNUL:
			key, _, _ = strings.Cut(key, "\x00")
		}
		value, err := read(in, how)
		if err != nil {
			return nil, err
		}
		if _, there := object[key]; !there || how == ignoreCase || how == "" {
			object[key] = value
		}
	}
	_, err := in.Token()
	return object, err
}

var shifted = regexp.MustCompile(`\+[A-Za-z0-9/]+-`)

// fromUTF7 decodes UTF-7 (RFC 2152).
func fromUTF7(text []byte) []byte {
	return shifted.ReplaceAllFunc(text, func(run []byte) []byte {
		packed, err := base64.RawStdEncoding.DecodeString(string(run[1 : len(run)-1]))
		if err != nil {
			return run
		}
		var units []uint16
		for ; len(packed) >= 2; packed = packed[2:] {
			units = append(units, binary.BigEndian.Uint16(packed))
		}
		return []byte(string(utf16.Decode(units)))
	})
}
