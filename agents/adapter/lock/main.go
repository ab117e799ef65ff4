// Command lock resolves the packages of the built-in adapters and writes the lock that package
// adapter embeds. Existing entries are kept. Its argument is a waza executable built by
// scripts/build, which becomes process 1 of containers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/mcpconfig"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: lock WAZA")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "lock:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, guest string) (err error) {
	network := images.Network{Env: map[string]string{"NPM_CONFIG_REGISTRY": os.Getenv("NPM_CONFIG_REGISTRY")}}
	if network.CA, err = certificates(); err != nil {
		return err
	}
	backend, err := containers.Open(ctx, containers.Options{
		Run: fmt.Sprintf("lock-%d", time.Now().UnixNano()), Guest: guest, Digest: files.Digest,
		Network: network, Redact: func(s string) string { return s },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close(context.WithoutCancel(ctx))) }()
	old, err := readLock()
	if err != nil {
		return err
	}
	var wanted []mcpconfig.Package
	lock := old
	for _, name := range adapter.Names() {
		a, _ := adapter.Builtin(name)
		i, err := a.Build(images.Bases{}, old)
		if err != nil {
			return err
		}
		if i == nil {
			continue
		}
		wanted = append(wanted, i.Package)
		if i.Entry != nil {
			continue
		}
		fmt.Fprintf(os.Stderr, "resolving %s\n", i)
		entry, err := backend.Resolve(ctx, *i, nil)
		if err != nil {
			return err
		}
		lock = lock.With(entry)
	}
	return os.WriteFile(adapter.LockFile, lock.Only(wanted).Bytes(), 0o644)
}

// readLock reads the lock file in the working directory.
func readLock() (*images.Lock, error) {
	data, err := os.ReadFile(adapter.LockFile)
	if err != nil {
		return nil, err
	}
	return images.ParseLock(data)
}

// certificates returns the CA bundle that the environment names, for an engine behind a proxy.
func certificates() ([]byte, error) {
	path := os.Getenv("NODE_EXTRA_CA_CERTS")
	if path == "" {
		return nil, nil
	}
	return os.ReadFile(path)
}
