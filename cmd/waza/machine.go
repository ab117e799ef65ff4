package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/internal/files"
)

const (
	// littleRoom is less than a run with a few large workspaces leaves.
	littleRoom = 2 << 30
	// noRoom is less than one trial's evidence may take.
	noRoom = 256 << 20
)

// examineMachine looks at what a run needs of this machine.
func examineMachine() containers.Checks {
	var all containers.Checks
	examineDir(&all, "run dir", filepath.Join(".waza", "runs"), "Free some, or name another place with --run-dir.")
	examineDir(&all, "temp dir", os.TempDir(), "Free some, or set TMPDIR.")
	return all
}

// examineDir looks at a directory that need not be there yet.
func examineDir(all *containers.Checks, name, dir, mend string) {
	there := nearest(dir)
	probe, err := os.CreateTemp(there, ".waza-doctor-*")
	if err != nil {
		all.Fail(name, fmt.Sprintf("%s cannot be written to: %v", there, errors.Unwrap(err)), "Use a directory that you may write to.")
		return
	}
	_ = errors.Join(probe.Close(), os.Remove(probe.Name()))
	free, ok := files.FreeSpace(there)
	switch {
	case !ok:
		all.OK(name, there+" can be written to; how much room it has is not known")
	case free < noRoom:
		all.Fail(name, fmt.Sprintf("%s has %d MiB free", there, free>>20), mend)
	case free < littleRoom:
		all.Warn(name, fmt.Sprintf("%s has %d MiB free", there, free>>20), mend)
	default:
		all.OK(name, fmt.Sprintf("%s has %d GiB free", there, free>>30))
	}
}

// nearest is the directory itself, or the one above it that is there.
func nearest(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "."
	}
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
