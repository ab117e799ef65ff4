package pages

import (
	"context"
	"net"
	"testing"

	"github.com/waza-isolate/waza/report/serve"
)

// served serves the runs in dir until the test ends, and returns the URL with the access
// token.
func served(t testing.TB, dir string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := serve.New(dir)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return server.URL(listener.Addr())
}
