package guest

import (
	"os"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// watchEvery is how often a guest checks for limits that were reached.
const watchEvery = 500 * time.Millisecond

// meter is the resource usage of this container so far.
type meter struct {
	mu   sync.Mutex
	seen observe.Usage // guarded by mu
}

// read updates the usage and returns it.
func (m *meter) read(dirs []string) observe.Usage {
	now := observe.ReadUsage(os.DirFS("/sys/fs/cgroup"))
	now.Disks = disksOf(dirs)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = m.seen.With(now)
	return m.seen
}

// disksOf returns the usage of directories that are separate file systems.
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

// report responds with the usage.
func (m *meter) report(l *link, req request) error {
	used := m.read(req.Dirs)
	return l.writeJSON(kindReply, reply{Usage: &used})
}

// watch responds with the usage, and again whenever the container has reached another limit,
// until the runner ends the stream.
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
