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

	"github.com/waza-isolate/waza/attacks/part"
	"github.com/waza-isolate/waza/sandbox"
)

// lingeringActs have programs outlive what should end them.
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

// linger is the part of a process that was started to outlive another.
const linger = "linger"

// lingering bounds the life of what outlives.
const lingering = 2 * time.Minute

// overtime is longer than its time and the patience with it, and shorter than what waza
// waits for a container that does not answer.
const overtime = 12 * time.Second

// detach starts ourselves in a session of its own, by way of a process that ends, so
// that nobody who knows us is its parent.
func detach(args ...string) error {
	cmd := exec.Command("/proc/self/exe", append([]string{linger, "away"}, args...)...)
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Run()
}

// lingerOn leaves a process that nothing but the end of its container ends.
func lingerOn() error {
	aims, err := aims(stdioServer)
	if err != nil {
		return err
	}
	return detach("on", aims.Nonce)
}

// lingerAs is what a process does that was started to outlive another.
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

// leaveMark waits for the end of a process, and then for longer than whoever ends its
// companions needs, and writes into the workspace.
func leaveMark(pid int) error {
	for until := time.Now().Add(lingering); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			time.Sleep(time.Second)
			return os.WriteFile(filepath.Join(sandbox.WorkspaceDir, part.Mark), []byte("survived\n"), 0o600)
		}
	}
	return nil
}

// ignoreSIGTERM goes on for longer than its time, and says so at its own end.
func ignoreSIGTERM(context.Context) []part.Word {
	signal.Ignore(syscall.SIGTERM)
	time.Sleep(overtime)
	return []part.Word{{Attack: "ignore-sigterm", Won: true, Detail: "it came to its own end"}}
}

// outliveRunner has itself, what it leaves, and its server go on, and tells those who
// wait to kill the runner that it is time, by a process that they see.
func outliveRunner(context.Context) []part.Word {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	_ = syscall.Kill(process1, syscall.SIGSTOP)
	if err := lingerOn(); err != nil {
		return []part.Word{tell("outlive-runner", agent, err)}
	}
	time.Sleep(lingering)
	return nil
}

// callTwice calls the server, and has another process do so too.
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
