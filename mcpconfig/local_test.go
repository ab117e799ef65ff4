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

func TestCheckWritable(t *testing.T) {
	for dir, want := range map[string]bool{
		"/data": true, "/var/lib/app": true, "/tmp/cache": true,
		"": false, "data": false, "/data/": false, "/a/../b": false, "/a:rw": false, "/etc/app": false, "/": false,
	} {
		if err := checkWritable(dir); (err == nil) != want {
			t.Errorf("%q: %v", dir, err)
		}
	}
}
