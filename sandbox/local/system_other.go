//go:build unix && !linux

package local

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const straysMissing = "a program that leaves its process group outlives the trial"

// ownSession has a program lead a session and a group.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// awaitEnd cannot: a child's end is seen when it is collected.
func awaitEnd(int) bool { return false }

func signalName(s syscall.Signal) string { return unix.SignalName(s) }

// killMarked finds nobody: this system does not show environments.
func killMarked(string) int { return 0 }
