// Package inside starts the programs that waza's executable contains for containers: process 1, the
// built-in agents, mocked commands, and the attacks of a run's certificate. Waza-guest consists of
// this package alone. Waza includes it to be its own guest if none is embedded, and to run the
// built-in agents without containers.
package inside

import (
	"fmt"
	"io"
	"os"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// Main runs the program that the arguments of this process name, and returns its exit code. It
// returns false if they name none.
func Main() (code int, found bool) {
	if isMock(os.Args, os.LookupEnv) { // started by a name in an eval's command_mocks
		return mock(os.Args, os.Environ(), os.Stdout, os.Stderr), true
	}
	if len(os.Args) < 2 {
		return 0, false
	}
	switch args := os.Args[2:]; os.Args[1] {
	case "guest": // process 1
		return exit(os.Stderr, guest.Main(args), 1), true
	case "agent":
		err := agents.Main(args, os.Stdin, os.Stdout, os.Stderr)
		return exit(os.Stderr, err, agents.ExitCode(err)), true
	case probe.Subcommand:
		return exit(os.Stderr, probe.Main(args, os.Stdin, os.Stdout), 1), true
	}
	return 0, false
}

// exit prints an error and returns code, or returns 0 if there is none.
func exit(stderr io.Writer, err error, code int) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, err)
	return code
}
