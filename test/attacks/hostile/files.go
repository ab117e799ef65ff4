package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// ourFileActs returns the acts that change files of waza in the container.
func ourFileActs() map[string]act {
	return map[string]act{part.OurFiles: {
		agent: func(context.Context) []part.Word {
			return []part.Word{tell("mcp-json", agent, changeMCPConfig()), tell("guest-binary", agent, changeGuest())}
		},
		tool: func(context.Context) []part.Word {
			return []part.Word{tell("guest-binary", stdioServer, changeGuest())}
		},
	}}
}

func tell(attack, role string, err error) part.Word {
	return onThread(wish{attack, func() error { return err }}, role)
}

// changeMCPConfig tries to change mcp.json in every way a file can be changed.
func changeMCPConfig() error {
	before, err := os.ReadFile(sandbox.MCPConfigPath)
	if err != nil {
		return err
	}
	mine := []byte(`{"mcpServers": {}}`)
	dir, aside := filepath.Dir(sandbox.MCPConfigPath), filepath.Join(os.TempDir(), "mine.json")
	if err := os.WriteFile(aside, mine, 0o600); err != nil {
		return err
	}
	err = firstGranted(
		func() error { return os.WriteFile(sandbox.MCPConfigPath, mine, 0o600) },
		func() error { return os.Chmod(sandbox.MCPConfigPath, 0o666) },
		func() error { return os.Rename(aside, sandbox.MCPConfigPath) },
		func() error { return os.Link(aside, filepath.Join(dir, "other.json")) },
		func() error { return os.Symlink(aside, filepath.Join(dir, "other.json")) },
		func() error { return os.Rename(dir, dir+".old") },
		func() error { return os.Remove(sandbox.MCPConfigPath) },
	)
	if after, readErr := os.ReadFile(sandbox.MCPConfigPath); readErr != nil || !bytes.Equal(before, after) {
		return nil
	}
	return err
}

// changeGuest tries to change the executable of process 1. If it succeeds, the contents
// stay the same.
func changeGuest() error {
	return firstGranted(
		func() error { return writes(sandbox.GuestPath, "/proc/1/exe", "/proc/self/root"+sandbox.GuestPath) },
		func() error { return os.Chmod(sandbox.GuestPath, 0o755) },
		func() error {
			f, err := os.CreateTemp(filepath.Dir(sandbox.GuestPath), "mine-")
			if err != nil {
				return err
			}
			_ = f.Close()
			return os.Remove(f.Name())
		},
	)
}
