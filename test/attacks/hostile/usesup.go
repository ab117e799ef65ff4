package main

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// supply is a resource that the kernel limits per user.
type supply struct {
	attack string
	most   int          // amount that the agent uses
	some   int          // amount that a server needs: more than processes that exit meanwhile release
	take   func() error // takes one more, which is kept
}

func supplies() []supply {
	return []supply{
		{attack: part.UsesUp, most: 1 << 10, some: 8, take: func() error { _, err := unix.InotifyInit1(unix.IN_CLOEXEC); return err }},
		{attack: "uses-up-queues", most: 1 << 10, some: 1, take: func() error { _, err := openQueue(); return err }},
		{attack: "uses-up-timers", most: 1 << 18, some: 1 << 10, take: probe.MakeTimer},
		{attack: "uses-up-descriptors", most: 1 << 6, some: 1, take: takeFlight},
		{attack: "uses-up-pipes", most: 1 << 8, some: 8, take: takePipe},
	}
}

// usesUpActs returns the acts of an agent that uses up its user's resources and of a server
// that needs some.
func usesUpActs() map[string]act {
	return map[string]act{part.UsesUp: {
		agent: func(ctx context.Context) []part.Word {
			for _, s := range supplies() {
				_ = s.times(s.most)
			}
			_, _ = call(ctx, victim, "hello") // the result is recorded
			return nil
		},
		tool: func(context.Context) []part.Word {
			var words []part.Word
			for _, s := range supplies() {
				err := s.times(s.some)
				w := part.Word{Attack: s.attack, Won: err != nil, Detail: "a server has its own"}
				if err != nil {
					w.Detail = fmt.Sprintf("a server is left without: %v", err)
				}
				words = append(words, w)
			}
			return words
		},
	}}
}

// times calls take n times or until it fails.
func (s supply) times(n int) error {
	for range n {
		if err := s.take(); err != nil {
			return err
		}
	}
	return nil
}

// kept are files that stay open.
var kept []*os.File

// takeFlight sends a hundred descriptors that nobody receives.
func takeFlight() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	fds := make([]int, 100)
	return unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(fds...), nil, 0)
}

func takePipe() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	kept = append(kept, r, w)
	_, err = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 1<<20)
	return err
}
