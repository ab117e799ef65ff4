// Package mcppeer contains a minimal MCP server, and a client that measures calls to it.
// Both do as little as possible, so that what is between them dominates. Neither is a
// complete implementation of MCP.
package mcppeer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const usage = `peer stdio           serve on stdin and stdout
peer echo            write to stdout what comes on stdin
peer http ADDR       serve on http://ADDR/mcp
peer health [URL]    exit with 0 once a server answers there
peer load OPTIONS    call a server; see peer load -h`

// Main runs the command given by args.
func Main(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] { // ended by signals as any program is
	case "stdio":
		return serveLines(os.Stdin, os.Stdout)
	case "echo":
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch args[0] {
	case "http":
		if len(args) != 2 {
			return errors.New(usage)
		}
		return serveHTTP(ctx, args[1])
	case "health":
		return checkHealth(ctx, args[1:])
	case "load":
		return loadCommand(ctx, args[1:])
	}
	return errors.New(usage)
}

// serveHTTP serves until ctx ends.
func serveHTTP(ctx context.Context, addr string) error {
	srv := &http.Server{Addr: addr, Handler: NewHandler(), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// checkHealth sends one request to a server over HTTP. Without a URL it succeeds: starting
// this program in the server's container is enough.
func checkHealth(ctx context.Context, urls []string) error {
	if len(urls) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, urls[0], strings.NewReader(initialize))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return errors.Join(err, response.Body.Close())
}
