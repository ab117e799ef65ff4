package session

import (
	"slices"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// modernOrNone is the answer to server/discover, or a refusal in its place where it
// offers no revision without sessions: the client would take any answer for such
// an offer, and a server may know discover and speak earlier revisions alone.
func modernOrNone(answer *transport.JSONRPCResponse) *transport.JSONRPCResponse {
	if answer == nil || answer.Error != nil {
		return answer
	}
	var discovered struct {
		SupportedVersions []string `json:"supportedVersions"`
	}
	if jsontext.Unmarshal(answer.Result, &discovered) != nil || slices.ContainsFunc(discovered.SupportedVersions, mcp.IsModernProtocol) {
		return answer
	}
	refused := *answer
	refused.Result = nil
	refused.Error = &mcp.JSONRPCErrorDetails{Code: mcp.METHOD_NOT_FOUND, Message: "the server offers revisions with sessions alone"}
	return &refused
}
