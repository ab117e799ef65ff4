package trial

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestAtAddress checks that no page of a browser asks models on this machine: neither one
// that has its name resolve to loopback, nor one that asks for loopback itself.
func TestAtAddress(t *testing.T) {
	t.Parallel()
	const addr = "127.0.0.1:4711"
	asked := 0
	h := atAddress(addr, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	for _, test := range []struct {
		host, origin string
		lets         bool
	}{
		{addr, "", true},
		{"rebound.example:4711", "", false},
		{"127.0.0.1:4712", "", false},
		{"", "", false},
		{addr, "https://page.example", false},
		{addr, "null", false},
		{addr, "http://" + addr, false},
	} {
		before := asked
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/p/x", nil)
		r.Host = test.host
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if let := asked > before; let != test.lets || !let && w.Code != http.StatusMisdirectedRequest {
			t.Errorf("%q from %q: %d, let in %t", test.host, test.origin, w.Code, let)
		}
	}
}

func TestIsModelHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"model": true, "MODEL": true, "model:80": true,
		"model:8080": false, "model.example": false, "xmodel": false, "": false, "model.": false, "model@x": false, "x@model": false,
	} {
		if got := isModelHost(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}
