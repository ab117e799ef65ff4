package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os/signal"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/model/stub"
)

// modelStubCommand is waza model-stub.
func modelStubCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:  "model-stub",
		Usage: "Serve scripted answers in place of a model",
		Description: "Serves OpenAI's chat completions and responses, Anthropic's messages and Google's generateContent " +
			"until it is interrupted, with the answers of a script; see docs/model-stub.md. It needs no key and " +
			"connects to nothing. Each request is logged to stderr.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "script", Usage: "Play the turns in `FILE`"},
			&cli.StringFlag{Name: "listen", Usage: "Listen on `HOST:PORT`; port 0 picks a free port", Value: "127.0.0.1:0"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() > 0 || c.String("script") == "" {
				return usage("model-stub takes --script FILE and no arguments; see waza model-stub --help")
			}
			return serveStub(ctx, s, c.String("script"), c.String("listen"))
		},
	}
}

func serveStub(ctx context.Context, s *state, file, address string) error {
	data, err := files.Read(file, strictyaml.MaxBytes)
	if err != nil {
		return usage("the script: %w", err)
	}
	script, err := stub.Parse(file, data)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return usage("--listen: %w; give HOST:PORT, such as 127.0.0.1:8411", err)
	}
	listener, err := net.Listen("tcp", onLoopback(address))
	if err != nil {
		return usage("--listen: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, endSignals()...)
	defer stop()
	fmt.Fprintf(s.stdout, "http://%s\n", listener.Addr())
	return serveUntilDone(ctx, listener, script.Handler(logRequests(s)))
}

// onLoopback adds the loopback address to an address without a host.
func onLoopback(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err == nil && host == "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// logRequests returns a function that logs each request to stderr in one line.
func logRequests(s *state) func(stub.Request) {
	logger := log.New(s.stderr, "", 0)
	return func(request stub.Request) {
		logger.Printf("%d %s %s %s: %s", request.Status, request.Method, text.Inert(request.Path), text.Inert(request.Model), text.Inert(request.What))
	}
}

// serveUntilDone serves handler until ctx is done.
func serveUntilDone(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return withExitCode(err)
	}
	return nil
}
