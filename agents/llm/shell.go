package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waza-isolate/waza/agents/internal/program"
	"github.com/waza-isolate/waza/internal/bounded"
)

// Bounds of a command.
const (
	commandTimeout    = 2 * time.Minute // where the model says nothing
	maxCommandTimeout = 30 * time.Minute
	maxOutput         = 64 << 10 // bytes of stdout, and of stderr, that are kept
)

type commandArguments struct {
	Command string `json:"command"`
	Seconds int    `json:"timeout_seconds"`
}

// shellTool runs commands with the shell at a path, in a directory.
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
	ran, err := program.Run(limited, program.Command{Args: []string{shell, "-c", a.Command}, Dir: dir, Keep: maxOutput})
	output := outputs(ran)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return failure(fmt.Sprintf("%sthe command was killed after %s", output, limit))
	case err != nil:
		return failure(err.Error())
	default:
		return result{text: fmt.Sprintf("%s[exit code %d]", output, ran.Code), failed: ran.Code != 0}
	}
}

// outputs is what a program wrote, with a line's end behind each.
func outputs(ran program.Result) string {
	var text strings.Builder
	for _, out := range []struct {
		name string
		*bounded.Head
	}{{"", ran.Stdout}, {"[stderr]\n", ran.Stderr}} {
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
