package mcpproxy

import "testing"

func TestLoopbackNamesNoneOfTwoServers(t *testing.T) {
	b := newBench(t, quick(), Server{Name: "s", Launch: launching(t, "scripted")}, Server{Name: "other", Launch: launching(t, "scripted")})
	if r := b.do("POST", "localhost:3000", initialize); r.status != 421 {
		t.Errorf("host: %d", r.status)
	}
	if r := b.do("POST", "s", initialize, "Origin", "http://localhost"); r.status != 403 {
		t.Errorf("origin: %d", r.status)
	}
	if r := b.do("POST", "s", initialize, "Origin", "http://other"); r.status != 403 {
		t.Errorf("another server's origin: %d", r.status)
	}
}

func TestLoopbackNamesALoneServer(t *testing.T) {
	b := scriptedBench(t, quick(), 0)
	for _, tt := range []struct {
		host, origin string
		status       int
	}{
		{"localhost:3000", "http://localhost:3000", 400},
		{"[::1]:3000", "http://127.0.0.1", 400},
		{"localhost:3000", "http://evil:3000", 403},
		{"localhost.example:3000", "", 421},
	} {
		if r := b.do("DELETE", tt.host, "", "Origin", tt.origin); r.status != tt.status {
			t.Errorf("%+v: %d", tt, r.status)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	tests := map[string]bool{
		"localhost": true, "LOCALHOST:80": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]": true, "[::1]:3000": true, "::1": true,
		"": false, ":80": false, "localhost.example": false, "127.0.0.1.example": false, "10.0.0.1": false, "evil:127.0.0.1": false, "[::2]:1": false,
	}
	for host, want := range tests {
		if got := isLoopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
