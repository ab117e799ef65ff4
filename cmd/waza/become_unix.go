//go:build unix

package main

import (
	"os"
	"syscall"
)

// become replaces this process by another executable. It returns only on failure.
func become(path string, args []string) error { return syscall.Exec(path, args, os.Environ()) }
