// Package procgroup ends a program and everything that it started.
package procgroup

import (
	"context"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// Own has a command of a context run in a process group of its own, all of which is killed when
// the context ends. Output that something outside the group still holds open is waited for no
// longer than grace.
func Own(cmd *exec.Cmd, grace time.Duration) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = grace
}

// Run runs a command in a directory, until it ends or ctx does.
func Run(ctx context.Context, dir string, command []string, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, stdout, stderr
	Own(cmd, time.Second)
	return cmd.Run()
}
