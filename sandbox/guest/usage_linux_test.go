package guest

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/waza-isolate/waza/sandbox/observe"
)

func TestUsage(t *testing.T) {
	g := startGuest(t)
	dir, missing := t.TempDir(), "/no/such/place"
	used, err := g.Usage(t.Context(), []string{dir, missing})
	must(t, err)
	disk, ok := used.Disks[dir]
	if !ok || disk.Size <= 0 || disk.Peak < 0 || disk.Peak > disk.Size || len(used.Disks) != 1 {
		t.Errorf("disks %+v", used.Disks)
	}
	if _, err := os.Stat("/sys/fs/cgroup"); err != nil && (used.Memory != nil || used.OOMKills != nil) {
		t.Errorf("without control groups it tells %+v", used)
	}
}

// The reports of a guest that never stops sending are read at intervals, and only for the
// directories that were asked for.
func TestWatchIsPaced(t *testing.T) {
	reported := make(chan observe.Usage, 1)
	g, err := hostile(t, func(session *yamux.Session, _ net.Conn) {
		stream, err := session.Accept()
		if err != nil {
			return
		}
		l := linkOf(stream)
		if _, _, err := l.message(); err != nil || l.writeJSON(kindReply, reply{Usage: &observe.Usage{}}) != nil {
			return
		}
		text, _ := json.Marshal(observe.Usage{Disks: map[string]observe.Disk{"/tmp": {Full: true}, "/made-up": {Full: true}}})
		for l.write(kindData, text) == nil {
		}
	})
	must(t, err)
	heard := 0
	_, err = g.Watch(t.Context(), []string{"/tmp"}, func(u observe.Usage) {
		heard++
		select {
		case reported <- u:
		default:
		}
	})
	must(t, err)
	start := time.Now()
	for range 3 {
		if used := <-reported; len(used.Disks) != 1 || !used.Disks["/tmp"].Full {
			t.Errorf("it tells of %+v", used.Disks)
		}
	}
	must(t, g.Close())
	took := time.Since(start)
	if most := int(took/watchPace) + 3; heard > most {
		t.Errorf("heard %d times in %v, want no more than %d", heard, took, most)
	}
}

func TestUsageOfNothing(t *testing.T) {
	g, err := hostile(t, func(session *yamux.Session, _ net.Conn) {
		for {
			stream, err := session.Accept()
			if err != nil {
				return
			}
			l := linkOf(stream)
			if _, _, err := l.message(); err != nil || l.writeJSON(kindReply, reply{}) != nil {
				return
			}
		}
	})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if used, err := g.Usage(ctx, nil); err == nil {
		t.Errorf("a reply without usage is %+v", used)
	}
}

// FuzzUsage reads what a hostile guest says.
func FuzzUsage(f *testing.F) {
	f.Add([]byte(`{"usage":{"memory":{"peak":1,"now":2},"oom_kills":1,"disks":{"/tmp":{"full":true}}}}`))
	f.Add([]byte(`{"usage":{"disks":null,"cpu_seconds":-1e300}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r reply
		if json.Unmarshal(text, &r) != nil {
			return
		}
		used, err := usageOf(r, []string{"/tmp"}, nil)
		if err != nil {
			return
		}
		for dir := range used.Disks {
			if dir != "/tmp" {
				t.Errorf("a directory that nobody asked about: %q", dir)
			}
		}
		if n := len(used.With(used).Breaches()); n > 3 {
			t.Errorf("%d breaches", n)
		}
		if _, err := json.Marshal(used); err != nil {
			t.Error(err)
		}
	})
}
