package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/test/attacks/part"
)

// unreadableActs returns the acts that make evidence unreadable.
func unreadableActs() map[string]act {
	return map[string]act{
		"closed-workspace":   {agent: closeAll},
		part.Leased:          {tool: holdLease},
		"unfit-workspace":    {agent: overfill},
		"unreadable-message": {agent: sayTwice},
		part.WrittenAsterisks: {agent: writeMarks, tool: func(context.Context) []part.Word {
			return []part.Word{{Attack: part.WrittenAsterisks, Detail: stars}}
		}},
	}
}

// closeAll leaves a file that is forbidden, and closes every directory on the way to it.
func closeAll(context.Context) []part.Word {
	deep := filepath.Join(workspace, "closed", "too")
	_ = os.MkdirAll(deep, 0o700)
	_ = os.WriteFile(filepath.Join(deep, "forbidden"), nil, 0)
	for _, dir := range []struct {
		path string
		mode uint32
	}{{deep, 0o300}, {filepath.Dir(deep), 0o100}, {workspace, 0o7000}, {"/home/agent/transcript", 0}, {"/home/agent", 0}, {"/tmp", 0}} {
		_ = unix.Chmod(dir.path, dir.mode)
	}
	return nil
}

// holdLease makes a file and leaves a process that holds a lease on it: until the kernel breaks that,
// nobody can open the file without waiting.
func holdLease(context.Context) []part.Word {
	file, err := os.OpenFile(part.LeasedFile, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	}
	if err == nil {
		holder := exec.Command("/proc/self/exe", linger, "on")
		holder.ExtraFiles = []*os.File{file}
		holder.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err = holder.Start()
	}
	return []part.Word{{Attack: part.Leased, Detail: fmt.Sprintf("the lease: %v", err)}}
}

// overfill leaves a file with a hole that is larger than the workspace may be, and smaller than what is
// collected at most.
func overfill(context.Context) []part.Word {
	file, err := os.Create(filepath.Join(workspace, "sparse"))
	if err == nil {
		_ = file.Truncate(60 << 20)
		_ = file.Close()
	}
	return nil
}

// stars look like the asterisks that replace a secret.
var stars = strings.Repeat("*", len(part.Unsaid))

// writeMarks writes asterisks wherever a grader looks.
func writeMarks(ctx context.Context) []part.Word {
	_ = os.WriteFile(filepath.Join(workspace, part.WrittenAsterisks), []byte(stars), 0o600)
	_, err := call(ctx, victim, stars)
	return []part.Word{tell(part.WrittenAsterisks, agent, err), {Attack: part.WrittenAsterisks, Detail: stars}}
}

// sayTwice sends a message with a key that is there twice.
func sayTwice(context.Context) []part.Word {
	return []part.Word{tried("unreadable-message", post(victim, `{"jsonrpc":"2.0","id":9,"method":"ping","method":"tools/call","params":{}}`))}
}
