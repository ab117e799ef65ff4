package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/mirror"
)

// Limits on what is remembered about the tools of one server.
const (
	maxMirroringTools = 1024
	maxMirroredBytes  = 1 << 20
)

// mirrors holds the mirrored arguments of a server's tools, as last listed by the server.
type mirrors struct {
	mu    sync.Mutex
	tools map[string][]mirror.Argument // by tool name; guarded by mu
	size  int                          // bytes of text in tools; guarded by mu
}

// learn reads the mirrored arguments from a tools/list response.
func (m *mirrors) learn(answer []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for tool := range jsontext.Elements(jsontext.Member(jsontext.Member(answer, "result"), "tools")) {
		name := jsontext.Word(jsontext.Member(tool, "name"))
		m.forget(name)
		found, _ := mirror.In(jsontext.Member(tool, "inputSchema"))
		size := sizeOf(name, found)
		if len(found) == 0 || len(m.tools) == maxMirroringTools || m.size+size > maxMirroredBytes {
			continue
		}
		if m.tools == nil {
			m.tools = map[string][]mirror.Argument{}
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
func sizeOf(name string, found []mirror.Argument) int {
	size := len(name)
	for _, one := range found {
		size += len(one.Header)
		for _, key := range one.Path {
			size += len(key)
		}
	}
	return size
}

// of returns the arguments that a call of tool must repeat in headers.
func (m *mirrors) of(tool string) []mirror.Argument {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tools[tool]
}

// checkMirrored compares the header of a call with its argument. It returns what is wrong, or "".
func checkMirrored(m mirror.Argument, h http.Header, arguments []byte) string {
	name := m.Header
	values := h.Values(name)
	argument := m.Of(arguments)
	where := strings.Join(m.Path, ".")
	switch given := argument != nil; {
	case !given && len(values) > 0:
		return fmt.Sprintf("%s is present but the argument %q is not", name, where)
	case !given:
		return ""
	case len(values) == 0:
		return fmt.Sprintf("%s is missing for the argument %q", name, where)
	case len(values) > 1:
		return fmt.Sprintf("%s is present %d times", name, len(values))
	}
	value, ok := mirror.Decode(values[0])
	if !ok {
		return fmt.Sprintf("%s %q cannot be decoded", name, values[0])
	}
	if !mirror.Matches(value, argument) {
		return fmt.Sprintf("%s %q does not match the argument %q", name, values[0], where)
	}
	return ""
}
