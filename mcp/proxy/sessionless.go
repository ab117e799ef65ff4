package proxy

import (
	"fmt"
	"net/http"
	"time"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/mirror"
)

// statelessVersion is the first protocol revision without sessions.
const statelessVersion = "2026-07-28"

// lastSessionVersion is the last protocol revision with sessions.
const lastSessionVersion = "2025-11-25"

// isStateless reports whether version is a revision without sessions. Revisions are dates,
// so they can be compared as text.
func isStateless(version string) bool {
	_, err := time.Parse(time.DateOnly, version)
	return err == nil && version >= statelessVersion
}

// isSessionVersion reports whether version is a revision with sessions. 2024-11-05 has no
// streamable HTTP, but clients that negotiated it over this transport send it.
func isSessionVersion(version string) bool {
	switch version {
	case "2024-11-05", "2025-03-26", "2025-06-18", lastSessionVersion:
		return true
	}
	return false
}

// isSessionless reports whether a message belongs to a revision without sessions. That is
// decided by a version in _meta, or by the header of a revision that requires one;
// 2026-07-28 basic/versioning. A single initialize request without such a version in _meta
// begins a session, whatever the header says.
func isSessionless(h http.Header, env envelope) bool {
	version := env.messages[0].version
	if env.isInitialize() {
		return isStateless(version)
	}
	if isStateless(h.Get(headerVersion)) {
		return true
	}
	return !env.batch && (isStateless(version) || version != "" && h.Get(headerSession) == "")
}

// checkSessionless compares the headers with the body, as 2026-07-28
// basic/transports/streamable-http (Server Validation) requires of every server.
func (b *bridge) checkSessionless(h http.Header, in inbound) *refusal {
	env := in.env
	m := env.messages[0]
	switch {
	case env.batch:
		return &refusal{status: http.StatusBadRequest, code: codeInvalidRequest, text: "Invalid request: this protocol version has no batches"}
	case m.kind == response:
		return &refusal{status: http.StatusBadRequest, code: codeInvalidRequest, text: "Invalid request: clients send no responses in this protocol version"}
	case m.kind == notification:
		return nil // there are no header rules for notifications
	case m.version == "":
		return &refusal{status: http.StatusBadRequest, code: codeInvalidParams, text: "Invalid params: _meta lacks " + metaVersion}
	}
	for _, pair := range []struct{ header, body string }{
		{headerVersion, m.version},
		{headerMethod, m.method},
		{headerName, mirroredName(m)},
	} {
		if pair.header == headerName && pair.body == "" {
			continue
		}
		value := h.Get(pair.header)
		if pair.header == headerName {
			value, _ = mirror.Decode(value)
		}
		if value != pair.body {
			return headerMismatch(fmt.Sprintf("%s %q does not match the body's %q", pair.header, value, pair.body))
		}
	}
	return b.checkMirrored(h, in.raw, m)
}

// checkMirrored compares the headers of a tool call with its arguments, if the server's
// list of tools has been seen.
func (b *bridge) checkMirrored(h http.Header, raw []byte, m message) *refusal {
	if m.method != methodCallTool {
		return nil
	}
	for _, mirrored := range b.mirrors.of(m.name) {
		if wrong := checkMirrored(mirrored, h, jsontext.Member(jsontext.Member(raw, "params"), "arguments")); wrong != "" {
			return headerMismatch(wrong)
		}
	}
	return nil
}

func headerMismatch(what string) *refusal {
	return &refusal{status: http.StatusBadRequest, code: codeHeaderMismatch, text: "Header mismatch: " + what}
}

// mirroredName returns the value that Mcp-Name must have, or "" if the method needs none.
func mirroredName(m message) string {
	switch m.method {
	case methodCallTool, "resources/read", "prompts/get":
		return m.name
	}
	return ""
}
