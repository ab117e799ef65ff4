// Package inside starts what waza's executable does in containers: process 1, the built-in agents,
// mocked commands, and the attacks of a run's certificate. It is all of waza-guest, and a part of
// waza, which is its own guest where none is embedded, and the agents' executable where there are no
// containers.
package inside

import (
	"fmt"
	"io"
	"os"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// Main runs what the arguments of this process name, and returns its exit code. It returns false
// if that is nothing that runs in containers.
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
