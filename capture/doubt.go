package capture

import (
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// doubt says why whoever got a message may have read another one than is recorded; it
// is empty where nothing that counts can be read in two ways. Of what an agent asks all
// of it counts, of an answer what decides on its outcome.
func (m message) doubt(f evidence.Frame) string {
	if repeats(m.raw, "jsonrpc", "id", "method", "params", "result", "error") {
		return "a key of its envelope comes twice"
	}
	if f.Dir == evidence.ToClient {
		if repeats(m.result, "isError", "resultType", "content", "structuredContent", "tools") {
			return "a key of its result comes twice"
		}
		return ""
	}
	name := text(member(m.params, nameKey(m.method)))
	switch {
	case !utf8.Valid(m.raw):
		return "it is not UTF-8"
	case strings.Contains(m.method, "\x00"), strings.Contains(name, "\x00"):
		return "a NUL is in its method or in the name of what it asks for, where some end a text"
	case m.isAsked() && duplicateKeys(m.params):
		return "a key of its parameters comes twice"
	}
	return ""
}

// isAsked says whether a message asks for a tool's call or a read.
func (m message) isAsked() bool {
	switch m.method {
	case methodCallTool, methodReadResource, methodGetPrompt:
		return true
	}
	return false
}

// member is the value of a key of an object, the last one where there are several.
func member(object []byte, key string) (found []byte) {
	for k, value := range jsontext.Members(object) {
		if k == key {
			found = value
		}
	}
	return found
}

// oddities notes what of a message different parsers may read differently.
func (k *call) oddities(f evidence.Frame, m message) {
	if duplicateKeys(m.raw) {
		k.note(f, NoteDuplicateKey)
	}
	if !utf8.Valid(m.raw) {
		k.note(f, NoteMalformed)
	}
}
