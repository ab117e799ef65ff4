package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/test/attacks/part"
)

// self is the path of this program.
const self = "/proc/self/exe"

// bombActs returns the acts that exceed the resource limits.
func bombActs() map[string]act {
	return map[string]act{
		"fork-bomb":           {agent: bombs},
		part.Forks:            {agent: forks},
		part.Threads:          {agent: threads},
		part.Mapped:           {agent: mapped},
		part.Segment:          {agent: segment},
		"cpu-hog":             {tool: spin},
		"agent-output-flood":  {agent: floodOutput},
		"server-stderr-flood": {tool: floodStderr},
	}
}

// bombs runs the bombs one after another. Those that kill the process run in a child.
func bombs(context.Context) []part.Word {
	for _, bomb := range []struct {
		attack string
		limit  int
		gets   func() int
	}{
		{"descriptor-bomb", part.Open, descriptors},
		{"message-queue-bomb", part.Pids, queues},
		{"keyring-bomb", 0, keys},
	} {
		fmt.Print(part.Say([]part.Word{got(bomb.attack, bomb.gets(), bomb.limit)}))
	}
	for _, bomb := range []struct{ attack, child string }{
		{"memory-bomb", part.Mapped}, {"sysv-memory-bomb", part.Segment}, {"fork-bomb", part.Forks}, {"thread-bomb", part.Threads},
	} {
		fmt.Print(part.Say([]part.Word{{Attack: bomb.attack, Detail: "it goes off"}}))
		inChild(bomb.child, bomb.attack)
	}
	return nil
}

func got(attack string, n, limit int) part.Word {
	return part.Word{Attack: attack, Won: n > limit, Detail: fmt.Sprintf("it got %d, of %d", n, limit)}
}

// inChild runs a bomb in a child process. It waits with a raw system call, since the
// runtime would need a thread, and there may be none left.
func inChild(what, attack string) {
	child, err := os.StartProcess(self, []string{self, agent, what, attack}, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return
	}
	_, _, _ = unix.RawSyscall6(unix.SYS_WAIT4, uintptr(child.Pid), 0, 0, 0, 0, 0)
	_ = child.Release()
}

// upTo counts how many descriptors can be opened, up to most, and closes them.
func upTo(most int, open func() (fd int, err error)) int {
	var all []int
	for range most {
		fd, err := open()
		if err != nil {
			break
		}
		all = append(all, fd)
	}
	for _, fd := range all {
		_ = unix.Close(fd)
	}
	return len(all)
}

func descriptors() int {
	return upTo(more(part.Open), func() (int, error) { return unix.Eventfd(0, 0) })
}

func queues() int {
	return upTo(more(part.Open), openQueue)
}

// openQueue creates a POSIX message queue.
func openQueue() (int, error) {
	name, err := unix.BytePtrFromString("q" + strconv.FormatInt(time.Now().UnixNano(), 36))
	if err != nil {
		return 0, err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}

func keys() (n int) {
	for n < 50 {
		if _, err := unix.AddKey("user", "hostile-"+strconv.Itoa(n), make([]byte, 64), unix.KEY_SPEC_PROCESS_KEYRING); err != nil {
			break
		}
		n++
	}
	return n
}

// forks returns how many children can exist at once. They wait in the kernel: after a raw
// clone, Go's runtime cannot do more.
func forks(context.Context) []part.Word {
	var children []int
	for range more(part.Pids) {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			break
		}
		for pid == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_PPOLL, 0, 0, 0)
		}
		children = append(children, int(pid))
	}
	for _, pid := range children {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return []part.Word{got(os.Args[3], len(children), part.Pids)}
}

// threads reports how many threads could be started, if the runtime survives.
func threads(context.Context) []part.Word {
	var started sync.WaitGroup
	for range more(part.Pids) {
		started.Add(1)
		go func() {
			runtime.LockOSThread()
			started.Done()
			_ = unix.Pause()
		}()
	}
	started.Wait()
	return []part.Word{got(os.Args[3], more(part.Pids), part.Pids)}
}

// mapped writes to all of a private mapping.
func mapped(context.Context) []part.Word {
	all, err := unix.Mmap(-1, 0, more(part.Memory), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return touch(all)
}

// segment is like mapped with a System V segment, which is removed with the child.
func segment(context.Context) []part.Word {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, more(part.Memory), unix.IPC_CREAT|0o600)
	if err != nil {
		return nil
	}
	all, err := unix.SysvShmAttach(id, 0, 0)
	_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	if err != nil {
		return nil
	}
	return touch(all)
}

func touch(all []byte) []part.Word {
	for at := 0; at < len(all); at += os.Getpagesize() {
		all[at] = 1
	}
	return []part.Word{got(os.Args[3], len(all), part.Memory)}
}

// more returns a number well above a limit.
func more(limit int) int { return limit + limit/2 }

// spin uses more processors than the container may.
func spin(ctx context.Context) []part.Word {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
			}
		})
	}
	all.Wait()
	return []part.Word{{Attack: "cpu-hog", Detail: "it went on for 4 s"}}
}

// floodOutput writes a long line to stdout.
func floodOutput(context.Context) []part.Word { return flood(os.Stdout, more(part.AgentOutput)) }

func floodStderr(context.Context) []part.Word { return flood(os.Stderr, more(part.ServerStderr)) }

func flood(out io.Writer, size int) []part.Word {
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range size >> 20 {
		if _, err := out.Write(piece); err != nil {
			break
		}
	}
	return nil
}
