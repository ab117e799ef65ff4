package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/serve"
	"github.com/waza-isolate/waza/runner"
)

const otherMachines = "allow-other-machines"

// serveCommand is waza serve.
func serveCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Usage:     "Serve runs to a browser, also while they are running",
		ArgsUsage: "[DIR]",
		Description: "Serves the runs in DIR (default: .waza/runs) until it is interrupted: the pages of report.html, " +
			"and the progress of runs; see docs/serve.md. The address that it prints contains a token " +
			"that is required for access.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "Listen on `HOST:PORT`; port 0 picks a free port", Value: "127.0.0.1:0"},
			&cli.BoolFlag{Name: otherMachines, Usage: "Allow --listen to use an address that other machines can reach"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 0, 1, "one directory"); err != nil {
				return err
			}
			dir, err := dirToServe(c.Args().First())
			if err != nil {
				return err
			}
			address, err := addressToServe(c.String("listen"), c.Bool(otherMachines))
			if err != nil {
				return err
			}
			return serveRuns(ctx, s, dir, address)
		},
	}
}

// dirToServe returns the directory of runs to serve. The default one may not exist yet.
func dirToServe(named string) (string, error) {
	if named == "" {
		return runsDir, nil
	}
	info, err := os.Stat(named)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", usage("directory %s does not exist; name the directory that contains runs, such as .waza/runs", named)
	case err != nil:
		return "", usage("%w", err)
	case !info.IsDir():
		return "", usage("%s is not a directory; name the directory that contains runs", named)
	}
	if _, err := os.Lstat(filepath.Join(named, runner.RunFile)); err == nil {
		return "", usage("%s is a single run; name the directory that contains it, %s", named, filepath.Dir(filepath.Clean(named)))
	}
	return named, nil
}

// addressToServe returns the address to listen on. It must be a loopback address unless others
// is set.
func addressToServe(listen string, others bool) (*net.TCPAddr, error) {
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return nil, usage("--listen: %w; give HOST:PORT, such as 127.0.0.1:8417", err)
	}
	address, err := net.ResolveTCPAddr("tcp", onLoopback(listen))
	if err != nil {
		return nil, usage("--listen: %w", err)
	}
	if !others && !address.IP.IsLoopback() {
		return nil, usage("--listen: other machines could reach %s and read the runs; use a loopback address such as 127.0.0.1:0, or add --%s", address, otherMachines)
	}
	return address, nil
}

func serveRuns(ctx context.Context, s *state, dir string, address *net.TCPAddr) error {
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return usage("--listen: %w", err)
	}
	server := serve.New(dir)
	runs, err := server.Runs()
	if err != nil {
		return usage("%w", errors.Join(err, listener.Close()))
	}
	ctx, stop := signal.NotifyContext(ctx, endSignals()...)
	defer stop()
	if !address.IP.IsLoopback() {
		fmt.Fprintf(s.stderr, "warning: anyone who can reach %s and has the token can read all runs, and connections are not encrypted\n", listener.Addr())
	}
	fmt.Fprintf(s.stdout, "%s in %s\n%s\n", text.Count(runs, "run"), text.Inert(dir), server.URL(listener.Addr()))
	return withExitCode(server.Serve(ctx, listener))
}
