//go:build unix

package proc

import (
	"os/exec"
	"syscall"
)

// own gives a command its own process group, which is killed when the command's context ends.
func own(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
