package serve

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/runner"
)

// maxBooks is how many runs are kept as they are shown, which takes a while to compute.
const maxBooks = 8

// bookcase keeps what is shown of the runs that were looked at last.
type bookcase struct {
	dir string

	mu    sync.Mutex
	books []*book // the one looked at last is last; guarded by mu
}

// book is a run as it is shown.
type book struct {
	id string

	mu     sync.Mutex // held while it is read, so that it is read once
	stamps stamps     // of its files; guarded by mu
	run    view.Run   // guarded by mu
	err    error      // guarded by mu
}

func newBookcase(dir string) *bookcase { return &bookcase{dir: dir} }

// run is what is shown of a run, as its files are now; without a record that is nothing.
func (c *bookcase) run(ctx context.Context, r Run) (view.Run, error) {
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

func (c *bookcase) book(id string) *book {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, b := range c.books {
		if b.id == id {
			c.books = append(append(c.books[:i:i], c.books[i+1:]...), b)
			return b
		}
	}
	if len(c.books) == maxBooks {
		c.books = c.books[1:]
	}
	b := &book{id: id}
	c.books = append(c.books, b)
	return b
}
