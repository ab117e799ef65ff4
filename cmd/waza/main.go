// Command waza runs agent evaluations, each trial in its own sandbox.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// version is set by the linker; see scripts/build.
var version = ""

func main() {
	if isCommandMock(os.Args, os.LookupEnv) { // started in the agent's container by a name in an eval's command_mocks
		os.Exit(mockCommand(os.Args, os.Environ(), os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "guest": // process 1 of a container
			exitOn(guest.Main(os.Args[2:]), 1)
			return
		case "agent": // a built-in agent, in the agent's container
			err := agents.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr)
			exitOn(err, agents.ExitCode(err))
			return
		case probe.Subcommand: // the attacks on a sandbox for a run's certificate
			exitOn(probe.Main(os.Args[2:], os.Stdin, os.Stdout), 1)
			return
		}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(defaultGOGC)
	}
	s := &state{
		args: os.Args, stdin: os.Stdin, stdout: os.Stdout, stderr: &screen{out: os.Stderr},
		lookup: os.LookupEnv, version: buildVersion(), digest: files.DigestOnce(),
	}
	setHelp(width(os.Stdout))
	if hasCluster && len(os.Args) == 2 && os.Args[1] == "shard" { // in a pod of waza run --shards
		if err := runShard(s); err != nil {
			os.Exit(s.end(exitOf(err)))
		}
		return
	}
	os.Exit(s.main(context.Background()))
}

// defaultGOGC is the default GOGC. A hostile peer can make the runner hold a bounded amount of
// memory; Go's default of 100 would let the heap grow to twice that.
const defaultGOGC = 50

// exitOn ends the process with code if there is an error.
func exitOn(err error, code int) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(code)
	}
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
