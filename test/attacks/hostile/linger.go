package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// lingeringActs returns the acts whose processes outlive what should end them.
func lingeringActs() map[string]act {
	return map[string]act{
		"outlive-agent": {agent: func(context.Context) []part.Word {
			return []part.Word{tell("outlive-agent", agent, detach("outlive-agent", strconv.Itoa(os.Getpid())))}
		}},
		"ignore-sigterm": {agent: ignoreSIGTERM},
		"outlive-stdin": {tool: func(context.Context) []part.Word {
			return []part.Word{tell("outlive-stdin", stdioServer, lingerOn())}
		}},
		"outlive-runner": {agent: outliveRunner, tool: func(context.Context) []part.Word {
			_ = lingerOn()
			return nil
		}},
		"call-from-another-process": {agent: callTwice},
	}
}

// linger is the subcommand of a process that outlives another.
const linger = "linger"

// lingering limits the life of such a process.
const lingering = 2 * time.Minute

// overtime is longer than the timeout with its grace period, and shorter than the time that
// waza waits for a container that does not respond.
const overtime = 12 * time.Second

// detach starts this program in a new session by way of a process that exits, so that its
// parent is unknown to those who know this process.
func detach(args ...string) error {
	cmd := exec.Command("/proc/self/exe", append([]string{linger, "away"}, args...)...)
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Run()
}

// lingerOn leaves a process that ends only with its container.
func lingerOn() error {
	aims, err := aims(stdioServer)
	if err != nil {
		return err
	}
	return detach("on", aims.Nonce)
}

// lingerAs is the main function of a process that outlives another.
func lingerAs(how string, args []string) error {
	if how == "away" {
		cmd := exec.Command("/proc/self/exe", append([]string{linger}, args...)...)
		cmd.Stdout = os.Stdout // held open
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	if how == "on" {
		time.Sleep(lingering)
		return nil
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return leaveMark(pid)
}

// leaveMark waits for the process pid to end, then longer than it takes to end the
// remaining processes, and writes a file into the workspace.
func leaveMark(pid int) error {
	for until := time.Now().Add(lingering); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			time.Sleep(time.Second)
			return os.WriteFile(filepath.Join(sandbox.WorkspaceDir, part.Mark), []byte("survived\n"), 0o600)
		}
	}
	return nil
}

// ignoreSIGTERM runs for longer than its timeout, and reports if it reaches its end.
func ignoreSIGTERM(context.Context) []part.Word {
	signal.Ignore(syscall.SIGTERM)
	time.Sleep(overtime)
	return []part.Word{{Attack: "ignore-sigterm", Won: true, Detail: "it came to its own end"}}
}

// outliveRunner keeps this process, a child and the server running. The child is the signal
// to kill the runner.
func outliveRunner(context.Context) []part.Word {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	_ = syscall.Kill(process1, syscall.SIGSTOP)
	if err := lingerOn(); err != nil {
		return []part.Word{tell("outlive-runner", agent, err)}
	}
	time.Sleep(lingering)
	return nil
}

// callTwice calls the server from this process and from another one.
func callTwice(ctx context.Context) []part.Word {
	answered := 0
	if _, err := call(ctx, victim, "from the agent"); err == nil {
		answered++
	}
	other := exec.CommandContext(ctx, "/proc/self/exe", agent, part.Honest)
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if other.Run() == nil {
		answered++
	}
	return []part.Word{{Attack: "call-from-another-process", Detail: strconv.Itoa(answered)}}
}
