//go:build unix

package selftest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/internal/retry"
)

// ownAlone reports whether a file belongs to this user and only this user can write it.
func ownAlone(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}

// lockPoll is the interval between attempts to take a lock.
const lockPoll = 50 * time.Millisecond

// lock waits until no other process has the lock, so that runs which start together probe only
// once.
func (c Cache) lock(ctx context.Context) (release func(), err error) {
	if c.dir == "" {
		return nil, errNoCache
	}
	if err := c.make(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(c.dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
		if err := retry.Sleep(ctx, lockPoll); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
}
