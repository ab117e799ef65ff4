package capture

import (
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// doubt says why whoever got a message may have read another one than is recorded; it
// is empty where nothing that counts can be read in two ways. Of what an agent asks all
// of it counts, of an answer what decides on its outcome.
func doubt(f evidence.Frame, m jsonrpc.Message) string {
	if m.Repeated {
		return "a key of its envelope comes twice"
	}
	if f.Dir == evidence.ToClient {
		if repeats(m.Result, "isError", "resultType", "content", "structuredContent", "tools") {
			return "a key of its result comes twice"
		}
		return ""
	}
	name := jsontext.Text(jsontext.Member(m.Params, nameKey(m.Method)))
	switch {
	case !utf8.Valid(m.Raw):
		return "it is not UTF-8"
	case strings.Contains(m.Method, "\x00"), strings.Contains(name, "\x00"):
		return "a NUL is in its method or in the name of what it asks for, where some end a text"
	case isAsked(m) && duplicateKeys(m.Params):
		return "a key of its parameters comes twice"
	}
	return ""
}

// isAsked says whether a message asks for a tool's call or a read.
func isAsked(m jsonrpc.Message) bool {
	switch m.Method {
	case methodCallTool, methodReadResource, methodGetPrompt:
		return true
	}
	return false
}

// oddities notes what of a message different parsers may read differently.
func (k *call) oddities(f evidence.Frame, m jsonrpc.Message) {
	if duplicateKeys(m.Raw) {
		k.note(f, NoteDuplicateKey)
	}
	if !utf8.Valid(m.Raw) {
		k.note(f, NoteMalformed)
	}
}
