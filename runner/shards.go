package runner

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/tree"
)

// Parcel is what a runner of a shard on another machine needs, besides the files of the eval.
type Parcel struct {
	Choices
	Parallel bool `json:"parallel,omitempty"`
	Prewarm  int  `json:"prewarm"`

	Waza      string            `json:"waza"`
	ID        string            `json:"id"` // of the run, which all shards have
	Eval      string            `json:"eval"`
	Start     string            `json:"start"` // directory that paths are relative to, within the files
	Overlay   string            `json:"overlay,omitempty"`
	Tasks     []string          `json:"tasks"` // ids of all shards' tasks, in order
	Shards    int               `json:"shards"`
	Variables map[string]string `json:"variables,omitempty"`
}

const (
	parcelFile  = "parcel.json"
	parcelFiles = "files" // the directory with the files of the eval

	// maxParcel is the size of the largest parcel, in bytes.
	maxParcel = 1 << 30
)

// WriteParcel writes what runners of a job's shards need to w, as tar. Variables are those of the
// environment that the job depends on.
func WriteParcel(w io.Writer, j *Job, variables map[string]string) error {
	q := j.Request
	p := Parcel{
		Choices: q.Choices, Parallel: q.Parallel, Prewarm: q.Prewarm,
		Waza: q.Waza, ID: j.ID, Shards: q.Shards, Variables: variables,
	}
	for _, t := range j.Tasks {
		p.Tasks = append(p.Tasks, t.ID)
	}
	paths, err := filesForShards(j)
	if err != nil {
		return err
	}
	start, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	base := start
	for i, file := range paths {
		if paths[i], err = filepath.Abs(file); err != nil {
			return err
		}
		for base != filepath.Dir(base) && !isBelow(base, paths[i]) {
			base = filepath.Dir(base)
		}
	}
	fromStart := func(file string) string {
		if err == nil && file != "" {
			file, err = fromDir(start, file)
		}
		return file
	}
	p.Eval, p.ContextDir = fromStart(j.Eval.Path), fromStart(q.ContextDir)
	if q.Overlay != nil {
		p.Overlay = fromStart(q.Overlay.Name)
	}
	if err == nil {
		p.Start, err = fromDir(base, start)
	}
	if err != nil {
		return err
	}
	data, err := evidence.Marshal(p)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	out := tree.NewWriter(w)
	if err := out.AddBytes(parcelFile, data); err != nil {
		return err
	}
	slices.Sort(paths)
	for _, file := range slices.Compact(paths) {
		name, err := filepath.Rel(base, file)
		if err == nil {
			err = out.Add(root, name, path.Join(parcelFiles, filepath.ToSlash(name)))
		}
		if err != nil {
			return mistake("%s cannot be given to runners of shards: %w", file, err)
		}
	}
	return out.Close()
}

func isBelow(dir, file string) bool {
	name, err := filepath.Rel(dir, file)
	return err == nil && filepath.IsLocal(name)
}

// checkForShards returns an error if the job needs something of this machine that runners of shards
// cannot have.
func checkForShards(j *Job) error {
	for _, t := range j.Trials {
		if len(t.Repos) > 0 {
			return mistake("task %s has a git repository, which runners of shards cannot fetch: leave out --shards", t.Task)
		}
		for _, s := range t.Servers {
			if s.Source != nil {
				return mistake("server %q is built from a directory, which runners of shards do not have: push its image and name that, or leave out --shards", s.Name)
			}
			for _, secret := range s.Config.Secrets {
				switch {
				case len(secret.Command) > 0:
					return mistake("server %q has a secret of a command, which runners of shards cannot run: give it in a variable", s.Name)
				case filepath.IsAbs(secret.File):
					return mistake("server %q has its secret in %s, which runners of shards do not have: give it in a variable", s.Name, secret.File)
				}
			}
		}
	}
	return nil
}

// filesForShards returns the paths of all that the job reads on this machine. The job has passed
// [checkForShards].
func filesForShards(j *Job) (paths []string, err error) {
	e, q := j.Eval, j.Request
	paths = append(e.Files(), ".", LockPath(e))
	for _, t := range j.Trials {
		paths = append(paths, t.ImagesFile)
		for _, s := range t.Servers {
			for _, secret := range s.Config.Secrets {
				if secret.File != "" {
					paths = append(paths, filepath.Join(e.Dir(), secret.File))
				}
			}
		}
	}
	if q.Overlay != nil {
		paths = append(paths, q.Overlay.Name)
	}
	if q.ContextDir != "" {
		paths = append(paths, q.ContextDir)
	}
	if agent := e.Config.Agent; agent != nil && agent.Adapter != "" {
		paths = append(paths, filepath.Join(e.Dir(), agent.Adapter))
	}
	project, err := eval.ProjectOf(".", e.Dir())
	if err != nil {
		return nil, err
	}
	if project.Path != "" {
		paths = append(paths, project.Path)
	}
	inputs, err := inputsOf(e, j.Tasks, j.Trials)
	for name := range inputs {
		paths = append(paths, filepath.Join(e.Dir(), filepath.FromSlash(name)))
	}
	return paths, err
}

// ReadParcel reads a parcel, puts its files below dir, and returns the directory in which to run.
func ReadParcel(r io.Reader, dir string) (p Parcel, start string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return p, "", err
	}
	defer func() { _ = root.Close() }()
	if err := tree.Unpack(root, r, nil); err != nil {
		return p, "", err
	}
	err = evidence.ReadJSON(dir, parcelFile, &p)
	return p, filepath.Join(dir, parcelFiles, filepath.FromSlash(p.Start)), err
}

// FrameParcel returns a parcel with its size before it, for a stream that stays open behind it.
func FrameParcel(parcel []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(len(parcel))), parcel...)
}

// UnframeParcel returns a reader of the parcel alone.
func UnframeParcel(r io.Reader) (io.Reader, error) {
	var size [8]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint64(size[:])
	if n > maxParcel {
		return nil, fmt.Errorf("a parcel of %d bytes is too large", n)
	}
	return io.LimitReader(r, int64(n)), nil
}

// Request asks for shard number of the parcel's, without its overlay and host.
func (p Parcel) Request(number int) Request {
	q := Request{Choices: p.Choices, Eval: p.Eval, ID: p.ID, Shard: &Shard{Number: number, Of: p.Shards}}
	q.Parallel, q.Prewarm = p.Parallel, p.Prewarm
	q.Select = func(tasks []eval.ResolvedTask) ([]eval.ResolvedTask, error) {
		var begun []TaskRecord
		for _, id := range p.Tasks {
			begun = append(begun, TaskRecord{ID: id})
		}
		return sameTasks(tasks, begun)
	}
	return q
}

// shardsDir holds, while a run is made of shards, a directory for each with its [RunFile] and its
// progress.
const shardsDir = "shards"

// Upload sends a shard's run directory to where the shards become one run: each trial once it has
// ended, so that it is not lost with the runner.
type Upload struct {
	root   *os.Root
	dir    string
	number int

	mu   sync.Mutex
	out  *tree.Writer           // guarded by mu
	sent map[string]fs.FileInfo // by path in the run directory; guarded by mu
	err  error                  // the first; guarded by mu
}

// NewUpload returns an Upload of the run directory dir, which is there, to w.
func NewUpload(dir string, number int, w io.Writer) (*Upload, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Upload{root: root, dir: dir, number: number, out: tree.NewWriter(w), sent: map[string]fs.FileInfo{}}, nil
}

// Record sends the run's record as it is now.
func (u *Upload) Record() { u.send(RunFile, u.place(RunFile)) }

func (u *Upload) place(name string) string {
	return path.Join(shardsDir, strconv.Itoa(u.number), name)
}

// Trial sends a trial that has ended, its [evidence.TrialFile] last: whoever has that has all.
func (u *Upload) Trial(task string, number int) {
	dir := filepath.ToSlash(string(TrialDir("", task, number)))
	last := path.Join(dir, evidence.TrialFile)
	err := fs.WalkDir(u.root.FS(), dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && name != last {
			u.send(name, name)
		}
		return err
	})
	if err != nil {
		u.fail(err)
		return
	}
	u.send(last, last)
}

// Close sends what has changed since, and the record, and ends the upload.
func (u *Upload) Close() error {
	trials, err := Trials(u.dir)
	for _, trial := range trials {
		u.Trial(filepath.Base(filepath.Dir(string(trial))), number(trial))
	}
	u.fail(err)
	u.send(evidence.ProgressFile, u.place(evidence.ProgressFile))
	u.Record()
	u.mu.Lock()
	defer u.mu.Unlock()
	return errors.Join(u.err, u.out.Close(), u.root.Close())
}

func number(trial evidence.Dir) int {
	n, _ := strconv.Atoi(filepath.Base(string(trial)))
	return n
}

func (u *Upload) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = err
	}
}

// send sends a file, unless it was sent as it is.
func (u *Upload) send(name, as string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	info, err := u.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || u.err != nil {
		return
	}
	if before := u.sent[name]; err == nil && before != nil && before.ModTime().Equal(info.ModTime()) && before.Size() == info.Size() {
		return
	}
	if err == nil {
		err = u.out.Add(u.root, name, as)
	}
	if err == nil {
		err = u.out.Flush()
	}
	u.sent[name], u.err = info, err
}

// TakeUpload puts what a shard uploads into the directory of a job's run: trials of the shard's
// own tasks, its record and its progress. Everything else fails.
func TakeUpload(j *Job, number int, r io.Reader) error {
	own := map[string]bool{}
	for i, t := range j.Tasks {
		own[t.ID] = i%j.Request.Shards == number-1
	}
	root, err := os.OpenRoot(j.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	place := path.Join(shardsDir, strconv.Itoa(number))
	return tree.Unpack(root, r, func(name string) bool {
		parts := strings.Split(name, "/")
		return len(parts) > 3 && parts[0] == trialsDir && own[parts[1]] || name == path.Join(place, RunFile) || name == path.Join(place, evidence.ProgressFile)
	})
}

// runShards has the shards of a job run elsewhere, and makes one run of them, as if this process
// had run all trials.
func runShards(ctx context.Context, j *Job) (Outcome, error) {
	if err := checkForShards(j); err != nil { // before a secret's command runs here
		return Outcome{}, err
	}
	if err := j.readSecrets(ctx); err != nil {
		return Outcome{}, err
	}
	record, err := j.newRecord(j.Request.Workers)
	if err != nil {
		return Outcome{}, err
	}
	made, err := makeRunDir(j.Dir)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = made.held.Close() }()
	if err := record.Write(j.Dir); err != nil {
		return Outcome{}, errors.Join(err, made.abandon())
	}
	failures, err := j.Request.Distribute(ctx, j)
	if err == nil {
		for i, failed := range failures {
			if failed != nil && ctx.Err() == nil {
				j.Request.Warn(fmt.Errorf("shard %d of %d: %w", i+1, j.Request.Shards, failed))
			}
		}
		record, err = gatherShards(j, record)
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(filepath.Join(j.Dir, shardsDir)))
		if trials, _ := Trials(j.Dir); len(trials) > 0 { // their evidence is kept
			return Outcome{Dir: j.Dir, Record: record}, err
		}
		return Outcome{}, errors.Join(err, made.abandon())
	}
	shards, err := filepath.Glob(filepath.Join(j.Dir, shardsDir, "*"))
	if err == nil {
		err = mergeProgress(j.Dir, shards)
	}
	if err := errors.Join(err, os.RemoveAll(filepath.Join(j.Dir, shardsDir))); err != nil {
		return Outcome{}, err
	}
	return concludeMerged(j.Dir, record)
}

// gatherShards returns the record of the run that shards have uploaded into the job's directory.
func gatherShards(j *Job, record Record) (Record, error) {
	if err := evidence.CheckPlain(j.Dir); err != nil {
		return record, err
	}
	var first *Record
	for number := 1; number <= j.Request.Shards; number++ {
		dir := filepath.Join(j.Dir, shardsDir, strconv.Itoa(number))
		shard, err := ReadRecord(dir)
		if err != nil { // it was ended before its first trial, or has never begun
			record.Interrupted = true
			continue
		}
		if first == nil {
			first = &shard
			record.Waza, record.Build, record.Engine, record.Images = shard.Waza, shard.Build, shard.Engine, evidence.ImageRecords{}
			record.Workers, record.Governed = shard.Workers, shard.Governed
		}
		key, err := differingKey(*first, shard)
		switch {
		case err != nil:
			return record, fmt.Errorf("shard %d of %d: %w", number, j.Request.Shards, err)
		case key != "":
			return record, fmt.Errorf("shard %d of %d ran another run: %q differs", number, j.Request.Shards, key)
		}
		if shard.Ended.IsZero() {
			record.Interrupted = true
		}
		if err := addShard(&record, fmt.Sprintf("shard %d", number), shard); err != nil {
			return record, err
		}
	}
	record.Merged = nil
	if first == nil {
		return record, errors.New("no shard began a trial")
	}
	if record.Interrupted {
		record.Ended = j.clock.Now()
	}
	trials, err := Trials(j.Dir)
	for _, dir := range trials {
		if _, damaged := dir.Trial(); damaged != nil { // its runner ended while it sent this
			err = errors.Join(err, os.Remove(filepath.Join(string(dir), evidence.TrialFile)))
		}
	}
	return record, err
}
