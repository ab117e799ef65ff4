package serve

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/runner"
)

// maxCachedRuns is how many runs are kept as they are shown, which takes a while to compute.
const maxCachedRuns = 8

// runCache keeps what is shown of the runs that were looked at last.
type runCache struct {
	dir string

	mu   sync.Mutex
	runs []*cachedRun // the one looked at last is last; guarded by mu
}

// cachedRun is a run as it is shown.
type cachedRun struct {
	id string

	mu     sync.Mutex // held while it is read, so that it is read once
	stamps stamps     // of its files; guarded by mu
	run    view.Run   // guarded by mu
	err    error      // guarded by mu
}

func newRunCache(dir string) *runCache { return &runCache{dir: dir} }

// run is what is shown of a run, as its files are now; without a record that is nothing.
func (c *runCache) run(ctx context.Context, r Run) (view.Run, error) {
	if r.Planned == 0 {
		return view.Run{ID: r.ID, AtWork: r.live()}, nil
	}
	p, err := openPlace(c.dir, r.ID)
	if err != nil {
		return view.Run{}, err
	}
	defer func() { _ = p.Close() }()
	b := c.book(r.ID)
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := stampsOf(p); !now.same(b.stamps) {
		b.stamps = now
		b.run, b.err = readReported(ctx, p)
		if ctx.Err() != nil { // who asked has gone, and perhaps it was not read to its end
			b.stamps = stamps{}
		}
	}
	shown := b.run
	shown.AtWork = r.live()
	return shown, b.err
}

func readReported(ctx context.Context, p *place) (view.Run, error) {
	if err := p.isPlain(ctx, "."); err != nil {
		return view.Run{}, err
	}
	record, err := readRecord(p)
	if err != nil {
		return view.Run{}, err
	}
	shown, err := runner.Reported(p.dir, record)
	shown.Dir = filepath.Base(p.dir)
	return shown, err
}

func (c *runCache) book(id string) *cachedRun {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, b := range c.runs {
		if b.id == id {
			c.runs = append(append(c.runs[:i:i], c.runs[i+1:]...), b)
			return b
		}
	}
	if len(c.runs) == maxCachedRuns {
		c.runs = c.runs[1:]
	}
	b := &cachedRun{id: id}
	c.runs = append(c.runs, b)
	return b
}
