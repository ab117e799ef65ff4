package guest

import (
	"os"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// watchEvery is how often a guest looks whether its container ran into a limit.
const watchEvery = 500 * time.Millisecond

// meter is what this container used, as far as it was looked at.
type meter struct {
	mu   sync.Mutex
	seen observe.Usage // guarded by mu
}

// read looks once more.
func (m *meter) read(dirs []string) observe.Usage {
	now := observe.ReadUsage(os.DirFS("/sys/fs/cgroup"))
	now.Disks = disksOf(dirs)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = m.seen.With(now)
	return m.seen
}

// disksOf tells how full directories are that are file systems of their own.
func disksOf(dirs []string) map[string]observe.Disk {
	disks := map[string]observe.Disk{}
	for _, dir := range dirs {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) != nil {
			continue
		}
		disks[dir] = observe.Disk{
			Peak: int64(fs.Blocks-fs.Bfree) * fs.Bsize,
			Size: int64(fs.Blocks) * fs.Bsize,
			Full: fs.Bavail == 0 || fs.Files > 0 && fs.Ffree == 0,
		}
	}
	return disks
}

// report answers with what is used.
func (m *meter) report(l *link, req request) error {
	used := m.read(req.Dirs)
	return l.writeJSON(kindReply, reply{Usage: &used})
}

// watch answers with what is used, and reports again whenever the container has run into a
// limit since, until the runner ends the stream.
func (m *meter) watch(l *link, req request) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.drain()
	}()
	used := m.read(req.Dirs)
	if err := l.writeJSON(kindReply, reply{Usage: &used}); err != nil {
		return err
	}
	reported := used.Breaches()
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-ticker.C:
		}
		used := m.read(req.Dirs)
		breaches := used.Breaches()
		if reflect.DeepEqual(breaches, reported) {
			continue
		}
		reported = breaches
		if err := l.writeJSON(kindData, used); err != nil {
			return err
		}
	}
}
