package report

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
)

// Log is what a program wrote: its beginning, and its end where there is more.
type Log struct {
	Name string
	File string // in the trial's directory
	Size int64
	Head Text
	Tail Text
	Left int64 // bytes between the two
}

// part is the n-th part of a budget, to be used by itself.
func (b *budget) part(n int) *budget {
	own := b.total / n
	b.total -= own
	return &budget{text: min(b.text, own), total: own}
}

// logs are those of the agent and of its servers that wrote something. What is left of
// the room goes back.
func (r *reading) logs(room *budget) (all []Log) {
	defer func() { r.room.total += room.total }()
	type source struct{ name, file string }
	files := []source{{"agent, stdout", evidence.StdoutFile}, {"agent, stderr", evidence.StderrFile}}
	for _, server := range r.talk.Trial.Servers {
		files = append(files, source{server.Name + ", stderr", filepath.Join(evidence.ServersDir, server.Name+".stderr")})
	}
	each := room.total / len(files)
	for _, f := range files {
		log, err := readLog(r.dir, f.file, &budget{text: min(room.text, each/2), total: each})
		r.note(err)
		if err == nil && log.Size > 0 {
			log.Name, log.File = f.name, f.file
			room.total -= cost(log.Head.Text) + cost(log.Tail.Text)
			all = append(all, log)
		}
	}
	return all
}

// readLog reads the beginning and the end of a file.
func readLog(dir evidence.Dir, name string, room *budget) (Log, error) {
	file, err := evidence.Open(string(dir), name)
	if err != nil {
		return Log{}, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return Log{}, err
	}
	log := Log{Size: info.Size()}
	half := int64(room.text)
	head, err := readAt(file, 0, min(log.Size, half))
	if err != nil {
		return Log{}, err
	}
	log.Head = room.show(head)
	shown := int64(len(head)) - log.Head.Left
	from := max(log.Size-half/2, shown)
	tail, err := readAt(file, from, log.Size-from)
	if err != nil {
		return Log{}, err
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	log.Tail = room.show(tail)
	log.Left = log.Size - shown - (int64(len(tail)) - log.Tail.Left)
	return log, nil
}

func readAt(file *os.File, from, size int64) (string, error) {
	content := make([]byte, size)
	n, err := file.ReadAt(content, from)
	if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(content[:n]), err
}
