package mcpproxy

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// isSessionless says whether a message is of a revision without sessions. A lone
// initialize never is; a version in _meta decides, and so does the header of a
// revision that requires one; 2026-07-28 basic/versioning.
func isSessionless(h http.Header, env envelope) bool {
	if env.isInitialize() {
		return false
	}
	if isStateless(h.Get(headerVersion)) {
		return true
	}
	version := env.messages[0].version
	return !env.batch && (isStateless(version) || version != "" && h.Get(headerSession) == "")
}

// checkSessionless holds the headers against the body, as 2026-07-28
// basic/transports/streamable-http (Server Validation) asks of every server.
func checkSessionless(h http.Header, env envelope) *refusal {
	m := env.messages[0]
	switch {
	case env.batch:
		return &refusal{http.StatusBadRequest, codeInvalidRequest, "Invalid request: this protocol version has no batches"}
	case m.kind == response:
		return &refusal{http.StatusBadRequest, codeInvalidRequest, "Invalid request: in this protocol version clients send no responses"}
	case m.kind == notification:
		return nil // header rules for notifications are not defined
	case m.version == "":
		return &refusal{http.StatusBadRequest, codeInvalidParams, "Invalid params: _meta lacks " + metaVersion}
	}
	for _, pair := range []struct {
		header, body string
		encoded      bool
	}{
		{headerVersion, m.version, false},
		{headerMethod, m.method, false},
		{headerName, mirroredName(m), true},
	} {
		if pair.header == headerName && pair.body == "" {
			continue
		}
		value := h.Get(pair.header)
		if pair.encoded {
			value = decodeHeader(value)
		}
		if value != pair.body {
			return &refusal{http.StatusBadRequest, codeHeaderMismatch,
				fmt.Sprintf("Header mismatch: %s %q does not match the body's %q", pair.header, value, pair.body)}
		}
	}
	return nil
}

// mirroredName is what Mcp-Name must repeat, empty where the method needs none.
func mirroredName(m message) string {
	switch m.method {
	case "tools/call", "resources/read", "prompts/get":
		return m.name
	}
	return ""
}

// decodeHeader undoes the encoding of values that no header can hold as they are.
func decodeHeader(value string) string {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if !ok {
		return value
	}
	inner, ok = strings.CutSuffix(inner, "?=")
	if !ok {
		return value
	}
	decoded, err := base64.StdEncoding.DecodeString(inner)
	if err != nil {
		return value
	}
	return string(decoded)
}
