// Command softguest is waza's executable in a container, without one defence of its guest: it
// repeatedly reverts what "guest" sets up.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// defence is set by the build: the one to revert.
var defence string

func main() {
	var err error
	switch os.Args[1] {
	case "guest":
		go undo()
		err = guest.Main(os.Args[2:])
	case probe.Subcommand:
		err = probe.Main(os.Args[2:], os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func undo() {
	for {
		switch defence {
		case "undumpable":
			_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		case "signals":
			signal.Reset(unix.SIGTERM) // the reaper needs SIGCHLD
		}
		time.Sleep(time.Millisecond)
	}
}
