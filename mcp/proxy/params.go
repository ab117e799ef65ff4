package proxy

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// headerParam is the prefix of headers that mirror arguments; 2026-07-28
// basic/transports/streamable-http, "Custom Headers from Tool Parameters".
const headerParam = "Mcp-Param-"

// Limits on what is remembered about the tools of one server.
const (
	maxMirroringTools = 1024
	maxMirrored       = 64
	maxMirroredBytes  = 1 << 20
	maxSchemaDepth    = 32
)

// maxSafeInteger is the largest integer allowed in a mirrored argument.
const maxSafeInteger = 1<<53 - 1

// mirrored is an argument that must be repeated in a header.
type mirrored struct {
	path   []string // object keys from the arguments down
	header string
}

// mirrors holds the mirrored arguments of a server's tools, as last listed by the server.
type mirrors struct {
	mu    sync.Mutex
	tools map[string][]mirrored // by tool name; guarded by mu
	size  int                   // bytes of text in tools; guarded by mu
}

// learn reads the mirrored arguments from a tools/list response.
func (m *mirrors) learn(answer []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for tool := range jsontext.Elements(jsontext.Member(jsontext.Member(answer, "result"), "tools")) {
		name := jsontext.Word(jsontext.Member(tool, "name"))
		m.forget(name)
		found := mirroredIn(jsontext.Member(tool, "inputSchema"), nil, nil)
		size := sizeOf(name, found)
		if len(found) == 0 || len(m.tools) == maxMirroringTools || m.size+size > maxMirroredBytes {
			continue
		}
		if m.tools == nil {
			m.tools = map[string][]mirrored{}
		}
		m.tools[name] = found
		m.size += size
	}
}

func (m *mirrors) forget(name string) {
	if found, known := m.tools[name]; known {
		delete(m.tools, name)
		m.size -= sizeOf(name, found)
	}
}

// sizeOf returns the bytes of text kept for a tool.
func sizeOf(name string, found []mirrored) int {
	size := len(name)
	for _, one := range found {
		size += len(one.header)
		for _, key := range one.path {
			size += len(key)
		}
	}
	return size
}

// of returns the arguments that a call of tool must repeat in headers.
func (m *mirrors) of(tool string) []mirrored {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tools[tool]
}

// mirroredIn appends the arguments annotated in a schema to found. Only annotations reached
// through "properties" alone count.
func mirroredIn(schema []byte, path []string, found []mirrored) []mirrored {
	if len(path) == maxSchemaDepth {
		return found
	}
	for key, property := range jsontext.Members(jsontext.Member(schema, "properties")) {
		if len(found) == maxMirrored {
			return found
		}
		at := append(slices.Clone(path), key)
		if header := jsontext.Word(jsontext.Member(property, "x-mcp-header")); header != "" {
			found = append(found, mirrored{path: at, header: header})
		}
		found = mirroredIn(property, at, found)
	}
	return found
}

// check compares the header of a call with its argument. It returns what is wrong, or "".
func (m mirrored) check(h http.Header, arguments []byte) string {
	name := headerParam + m.header
	values := h.Values(name)
	argument := arguments
	for _, key := range m.path {
		argument = jsontext.Member(argument, key)
	}
	where := strings.Join(m.path, ".")
	switch given := argument != nil && string(argument) != "null"; {
	case !given && len(values) > 0:
		return fmt.Sprintf("%s is present but the argument %q is not", name, where)
	case !given:
		return ""
	case len(values) == 0:
		return fmt.Sprintf("%s is missing for the argument %q", name, where)
	case len(values) > 1:
		return fmt.Sprintf("%s is present %d times", name, len(values))
	}
	value, ok := decodeHeader(values[0])
	if !ok {
		return fmt.Sprintf("%s %q cannot be decoded", name, values[0])
	}
	if !mirrorsArgument(value, argument) {
		return fmt.Sprintf("%s %q does not match the argument %q", name, values[0], where)
	}
	return ""
}

// mirrorsArgument reports whether a header value represents an argument. Integers are
// compared as numbers.
func mirrorsArgument(value string, argument []byte) bool {
	switch argument[0] {
	case '"':
		return value == jsontext.Word(argument)
	case 't', 'f':
		return value == string(argument)
	}
	want, ok := safeInteger(string(argument))
	got, fine := safeInteger(value)
	return ok && fine && got == want
}

// safeInteger parses a number that is an integer in any notation, such as 1e3.
func safeInteger(number string) (int64, bool) {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxSafeInteger {
		return 0, false
	}
	return int64(f), true
}
