package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/proc"
)

// Bounds of a command.
const (
	commandTimeout    = 2 * time.Minute // by default
	maxCommandTimeout = 30 * time.Minute
	maxOutput         = 64 << 10 // bytes of stdout, and of stderr, that are kept
)

type commandArguments struct {
	Command string `json:"command"`
	Seconds int    `json:"timeout_seconds"`
}

// shellTool returns the tool that runs commands with the shell at a path, in a directory.
func shellTool(shell, dir string) *tool {
	schema := fmt.Sprintf(`{"type":"object","properties":{"command":{"type":"string","description":"the command, for sh -c"},"timeout_seconds":{"type":"integer","description":"how long it may take, up to %d; default %d"}},"required":["command"]}`,
		maxCommandTimeout/time.Second, commandTimeout/time.Second)
	return local("run_command", "Runs a shell command in the workspace and gives its output and exit code.", schema,
		func(ctx context.Context, a commandArguments) result { return runCommand(ctx, shell, dir, a) })
}

func runCommand(ctx context.Context, shell, dir string, a commandArguments) result {
	if strings.ContainsRune(a.Command, 0) {
		return failure("a command cannot hold a NUL character")
	}
	limit := commandTimeout
	if a.Seconds > 0 {
		limit = min(time.Duration(min(a.Seconds, 1<<20))*time.Second, maxCommandTimeout)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stdout, stderr := &bounded.Head{Limit: maxOutput}, &bounded.Head{Limit: maxOutput}
	code, err := proc.ExitCode(proc.Run(limited, proc.Command{Args: []string{shell, "-c", a.Command}, Dir: dir, Stdout: stdout, Stderr: stderr}))
	output := outputs(stdout, stderr)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return failure(fmt.Sprintf("%sthe command was killed after %s", output, limit))
	case err != nil:
		return failure(err.Error())
	default:
		return result{text: fmt.Sprintf("%s[exit code %d]", output, code), failed: code != 0}
	}
}

// outputs returns a program's outputs, each with a line break at its end.
func outputs(stdout, stderr *bounded.Head) string {
	var text strings.Builder
	for _, out := range []struct {
		name string
		*bounded.Head
	}{{"", stdout}, {"[stderr]\n", stderr}} {
		if len(out.Bytes()) == 0 {
			continue
		}
		text.WriteString(out.name + strings.TrimSuffix(out.String(), "\n") + "\n")
		if over := out.Over(); over > 0 {
			fmt.Fprintf(&text, "[%d more bytes are left out]\n", over)
		}
	}
	return text.String()
}
