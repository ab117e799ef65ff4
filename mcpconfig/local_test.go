package mcpconfig

import "testing"

// TestLocalIsStdio checks that Copilot's word for stdio is one here.
func TestLocalIsStdio(t *testing.T) {
	s := Server{Type: "local", Command: "c", Image: "i"}
	if err := Validate("s", s); err != nil || s.Transport() != Stdio {
		t.Errorf("transport %q, %v", s.Transport(), err)
	}
	if err := Validate("s", Server{Type: "local", URL: "https://example.com/mcp"}); err == nil {
		t.Error("a remote server on stdio is taken")
	}
}
