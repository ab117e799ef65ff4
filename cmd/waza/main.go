// Command waza runs agent evaluations, each trial in its own sandbox.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"runtime/debug"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/sandbox/inside"
)

// version is set by the linker; see scripts/build.
var version = ""

func main() {
	if code, found := inside.Main(); found {
		os.Exit(code)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(defaultGOGC)
	}
	s := &state{
		args: os.Args, stdin: os.Stdin, stdout: os.Stdout, stderr: &screen{out: os.Stderr},
		lookup: os.LookupEnv, version: buildVersion(), digest: files.DigestOnce(),
	}
	log.SetOutput(io.Discard) // libraries log what peers send, which may contain secrets
	setHelp(width(os.Stdout))
	os.Exit(s.main(context.Background()))
}

// defaultGOGC is the default GOGC. A hostile peer can make the runner hold a bounded amount of memory; with
// Go's default of 100 the heap could grow to twice that.
const defaultGOGC = 50

// commit returns the commit that this executable was built from, or "" if it is unknown or the source was
// modified.
func commit() string {
	found := ""
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			found = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			return ""
		}
	}
	return found
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
