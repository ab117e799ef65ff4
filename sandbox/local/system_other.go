//go:build unix && !linux

package local

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const straysMissing = "a program that leaves its process group outlives the trial, and all programs outlive a waza that is killed"

// ownSession starts a program in its own session.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// awaitEnd always fails: this system cannot wait without reaping.
func awaitEnd(int) bool { return false }

func signalName(s syscall.Signal) string { return unix.SignalName(s) }

// mayChange and unmountBelow do nothing: they undo what only root can do on Linux.
func mayChange(*os.Root, string) {}
func unmountBelow(string)        {}

// killMarked does nothing: this system does not show environments.
func killMarked(string) int { return 0 }
