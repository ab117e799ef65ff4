package guest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// observer records what the watched programs of this container do.
type observer struct {
	nested bool // programs may add filters of their own

	mu      sync.Mutex
	ledger  *observe.Ledger // nil before the first program; guarded by mu
	watcher *watcher        // nil if programs cannot be watched; guarded by mu
	dirs    []string        // guarded by mu
	before  *listing        // guarded by mu
}

// begin lists the directories before the first program is started. It returns nil if programs
// and connections cannot be watched.
func (o *observer) begin(dirs []string) *watcher {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ledger != nil {
		return o.watcher
	}
	o.ledger, o.dirs, o.before = observe.NewLedger(), dirs, list(dirs)
	var err error
	if o.watcher, err = newWatcher(o.ledger, o.nested); err != nil {
		o.ledger.Lack(observe.Programs, err.Error())
		o.ledger.Lack(observe.Connections, err.Error())
	}
	return o.watcher
}

func (o *observer) seen() observe.Seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ledger == nil {
		return observe.Seen{}
	}
	seen := o.ledger.Seen()
	list(o.dirs).since(o.before, &seen)
	return seen
}

// report sends what was seen so far.
func (o *observer) report(l *link) error {
	return answerBy(l, func(w io.Writer) error { return json.NewEncoder(w).Encode(o.seen()) })
}

// Limits of a listing, since programs may have created files to slow it down.
const (
	maxListed  = 20_000
	listDepth  = 32
	listFor    = 5 * time.Second
	listedOnce = 512 // names per read of a directory
)

// listing is the content of some directories. Links are listed, not followed.
type listing struct {
	entries map[string]entry // by absolute path
	cut     string           // why it is incomplete, or ""
	until   time.Time
}

// entry identifies the state of a file. Programs cannot set ctime, so changing a file and
// resetting its other times is detected.
type entry struct {
	mode         uint32
	inode        uint64
	size         int64
	mtime, ctime unix.Timespec
}

func list(dirs []string) *listing {
	l := &listing{entries: map[string]entry{}, until: time.Now().Add(listFor)}
	for _, dir := range outermost(dirs) {
		fd, err := openDir(unix.AT_FDCWD, dir)
		if err != nil {
			if !errors.Is(err, unix.ENOENT) {
				l.lack("%s cannot be read: %v", dir, err)
			}
			continue
		}
		l.walk(fd, dir, 0)
	}
	return l
}

// outermost returns dirs without those inside others.
func outermost(dirs []string) (outer []string) {
	for _, dir := range dirs {
		inside := func(other string) bool {
			return strings.HasPrefix(dir, strings.TrimSuffix(other, "/")+"/") && dir != other
		}
		if !slices.ContainsFunc(dirs, inside) {
			outer = append(outer, dir)
		}
	}
	return outer
}

// openDir opens a directory. It fails if that was replaced by something else meanwhile.
func openDir(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (l *listing) lack(format string, args ...any) {
	l.cut = cmp.Or(l.cut, fmt.Sprintf(format, args...))
}

// walk lists the content of a directory and closes it.
func (l *listing) walk(dir *os.File, path string, depth int) {
	defer func() { _ = dir.Close() }()
	if depth == listDepth {
		l.lack("directories are nested more than %d deep", listDepth)
		return
	}
	for {
		names, err := dir.Readdirnames(listedOnce)
		for _, name := range names {
			if !l.mayGoOn() {
				return
			}
			l.add(dir, name, filepath.Join(path, name), depth)
		}
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			l.lack("%q cannot be read: %v", path, err)
			return
		}
	}
}

func (l *listing) mayGoOn() bool {
	switch {
	case len(l.entries) >= maxListed:
		l.lack("there are more than %d files", maxListed)
		return false
	case time.Now().After(l.until):
		l.lack("looking through the files took longer than %v", listFor)
		return false
	}
	return true
}

func (l *listing) add(dir *os.File, name, path string, depth int) {
	var s unix.Stat_t
	at := int(dir.Fd())
	if unix.Fstatat(at, name, &s, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return // removed meanwhile
	}
	l.entries[path] = entry{s.Mode, s.Ino, s.Size, s.Mtim, s.Ctim}
	if s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	inner, err := openDir(at, name)
	if err != nil {
		l.lack("%q cannot be read: %v", path, err)
		return
	}
	l.walk(inner, path, depth+1)
}

// since adds the differences from before.
func (l *listing) since(before *listing, to *observe.Seen) {
	var changes []observe.FileChange
	for path, now := range l.entries {
		then, was := before.entries[path]
		switch {
		case !was && before.cut != "": // it may have been there before
		case !was:
			changes = append(changes, now.change(path, "created"))
		case now.differs(then):
			changes = append(changes, now.change(path, "changed"))
		}
	}
	for path, then := range before.entries {
		if _, is := l.entries[path]; !is && l.cut == "" {
			then.size = 0
			changes = append(changes, then.change(path, "removed"))
		}
	}
	slices.SortFunc(changes, func(a, b observe.FileChange) int { return cmp.Compare(a.Path, b.Path) })
	to.AddFiles(changes)
	if why := cmp.Or(before.cut, l.cut); why != "" {
		to.Lack(observe.Files, why)
	}
}

// differs reports whether a file was replaced or modified. For directories, only changes of the
// directory itself count.
func (e entry) differs(then entry) bool {
	if e.mode&unix.S_IFMT == unix.S_IFDIR {
		return e.mode != then.mode || e.inode != then.inode
	}
	return e != then
}

func (e entry) change(path, what string) observe.FileChange {
	c := observe.FileChange{Path: observe.Text(path), What: what, Kind: "special"}
	switch e.mode & unix.S_IFMT {
	case unix.S_IFREG:
		c.Kind, c.Size = "file", e.size
	case unix.S_IFDIR:
		c.Kind = "directory"
	case unix.S_IFLNK:
		c.Kind = "link"
	}
	return c
}
