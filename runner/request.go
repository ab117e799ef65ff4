package runner

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/kube"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// Choices are the options of a command line that the eval does not determine. They are recorded
// in run.json, so that --resume uses the same.
type Choices struct {
	Isolated bool `json:"isolated"`
	Pace
	Trials      int           `json:"trials_per_task"` // 0 for the eval's number
	Timeout     time.Duration `json:"timeout_ns,omitempty"`
	Executor    string        `json:"executor,omitempty"`    // overrides the eval's
	Model       string        `json:"model,omitempty"`       // overrides the eval's
	JudgeModel  string        `json:"judge_model,omitempty"` // overrides the eval's
	SkipGraders bool          `json:"skip_graders,omitempty"`
	NoAttacks   bool          `json:"no_attacks,omitempty"` // leave out injections
	NoSkills    bool          `json:"no_skills,omitempty"`  // leave out skills
	Faults      string        `json:"faults,omitempty"`     // file of faults for all tasks, or eval.NoFaults; empty for the eval's
	Baseline    bool          `json:"baseline,omitempty"`   // a baseline, which is compared with a run with skills or faults
	Retries     int           `json:"infra_retries"`        // how often trials with outcome infra are retried
	ContextDir  string        `json:"context_dir,omitempty"`
	Egress      []string      `json:"egress,omitempty"` // further hosts that servers may reach, as NAME=HOST
	Pull        string        `json:"pull,omitempty"`
	On          string        `json:"on,omitempty"` // backend if Isolated: "" for Docker, or eval.OnKubernetes
	Pins        string        `json:"pins,omitempty"`
	AllowWeak   []string      `json:"allow_weak,omitempty"` // attacks that may get out of the sandbox
	eval.Playing
}

// Pace controls how many trials run at once. It does not affect outcomes, so --resume may
// change it.
type Pace struct {
	Workers  int  `json:"workers"` // 0 for the eval's number
	Auto     bool `json:"-"`       // the size of the engine decides
	Parallel bool `json:"-"`       // run in parallel even if the eval does not say so
	// Prewarm is how many sandboxes may be open for trials that have not started. A negative
	// number means as many as trials run at once, and at most 4.
	Prewarm int `json:"-"`
}

// Request is a request to run an eval.
type Request struct {
	Choices
	Eval string // path of the eval
	// AsWritten lets the eval choose whether the run is isolated; Isolated is then ignored.
	AsWritten bool
	// ID is the id of a resumed run. For a new run it is empty, and made of Name and the eval's
	// name.
	ID, Name string
	// Omit are directories of runs, which are left out of image builds.
	Omit []string
	// Overlay is laid over the eval's servers; may be nil.
	Overlay *mcpconfig.ClientFile
	// Select returns the tasks to run; nil for all.
	Select func([]eval.ResolvedTask) ([]eval.ResolvedTask, error)
	// Repeats is the directory of a run that is repeated in part: the tasks that are not selected
	// are kept from it. Empty for none.
	Repeats string
	// Shard selects some of the tasks that Select returns; nil for all.
	Shard *Shard
	// Start is the directory that paths in evals may be relative to; empty for the current one.
	Start           string
	HostHooks       bool // allow hooks on this machine
	UpdateSnapshots bool // overwrite the eval's snapshots
	Keyless         bool // plan without models' API keys

	Host Host
}

// Host is what a run needs of the program that contains it.
type Host struct {
	Secrets      *secret.Set                 // values to redact in everything that is written
	Waza         string                      // version of waza
	Build        func() string               // identifies the build, in addition to the version
	Lookup       func(string) (string, bool) // looks up environment variables
	Certificates selftest.Cache
	Output       []fs.FileInfo // the files that waza's own output goes to

	// CheckScript, CheckModelScript and ModelScript parse scripts of agents and models.
	CheckScript      func(doc *strictyaml.Document, at ...any)
	CheckModelScript func(file string, data []byte) error
	ModelScript      func(file string, data []byte) (plan.ModelScript, error)

	// Cluster returns the settings of an eval's pods; see [plan.Choices].
	Cluster func(kube.Settings) (kube.Settings, error)

	// Permit returns an error unless the user allows what an eval or a client's file would give away
	// of this machine. It is called before any of that is read or sent; nil allows everything.
	Permit func(ctx context.Context, file string, gifts []plan.Gift) error

	// Absent returns which images the engine does not have; nil if there is no engine to ask.
	Absent func(ctx context.Context, refs []string) ([]string, error)

	// Connect returns the judge for graders; required if a trial has one.
	Connect func(evidence.Judge) (trial.Judge, error)
	// Recorded returns the judge that a run's record names. The record may come from someone else.
	// Required to resume a run and to ask judges again.
	Recorded func(evidence.Judge) (trial.Judge, error)
	// ServerLog and Hold are those of [trial.Options].
	ServerLog func(t *plan.Trial, server string) io.Writer
	Hold      func(ctx context.Context, t *plan.Trial, s sandbox.Sandbox)

	// Open opens the backend of a run.
	Open func(context.Context, Opening) (sandbox.Backend, error)

	Say    func(string)              // prints a progress message
	Work   Work                      // shows what takes long; may be nil
	Warn   func(error)               // prints an error that does not affect trials
	Notice func([]*strictyaml.Error) // prints warnings about the eval's files
	// Watch starts to show the progress of trials, of which at most workers run at once. It returns
	// functions that take updates and that end the display.
	Watch func(ctx context.Context, trials, workers int) (update func(Update), end func())
}

// Work shows something that takes long, until end is called, with its current step.
type Work = func(what string) (step func(string), end func())

// permit asks h.Permit for what trials give away.
func (h Host) permit(ctx context.Context, e *eval.Eval, trials []*plan.Trial) error {
	if h.Permit == nil {
		return nil
	}
	return h.Permit(ctx, e.Path, plan.Gifts(e, trials))
}

// Opening is a request to open a backend.
type Opening struct {
	Run      string // the run's id
	Isolated bool   // use containers
	Resume   bool   // a run of this id has died, and is to be resumed
	Trials   []*plan.Trial
	// AllowWeak are attacks that may get out of the sandbox.
	AllowWeak []string
}

// Installer is a backend that installs packages into images.
type Installer interface {
	// Platform returns the engine's platform, such as linux/amd64.
	Platform() string
	// Resolve resolves a package and its dependencies to versions, with the registry.
	Resolve(ctx context.Context, i images.Image, lock *images.Lock) (images.Entry, error)
}

// Mistake is an error that the user can correct: in the command line, in a file, or in the
// environment. Nothing was run.
type Mistake struct{ error }

// Unwrap returns the error.
func (m Mistake) Unwrap() error { return m.error }

func mistake(format string, args ...any) error { return Mistake{fmt.Errorf(format, args...)} }

// checkContainers rejects options about containers if the run has none.
func (q *Request) checkContainers() error {
	switch {
	case q.Isolated:
	case q.On != "":
		return mistake("--on is about where containers run: it needs --isolate")
	case q.Auto:
		return mistake("--workers auto needs --isolate: without it trials may disturb each other")
	case q.Prewarm > 0:
		return mistake("--prepare is about containers: it needs --isolate")
	case q.Pins != "":
		return mistake("--pins needs --isolate, without which waza.lock is not read")
	case q.Pull != "":
		return mistake("--pull is about container images: it needs --isolate")
	case len(q.Egress) > 0:
		return mistake("--egress is about the network of servers' containers: it needs --isolate")
	case len(q.AllowWeak) > 0:
		return mistake("--allow-weak is about the sandbox: it needs --isolate")
	}
	return nil
}

// defaultWorkers is how many trials run at once if they may and no number is given.
const defaultWorkers = 4

// maxAuto is the maximum number of concurrent trials if the size of the engine decides.
const maxAuto = 32

// Sized is a [Backend] that knows the size of its machine.
type Sized interface {
	Size() (cpus int, memory int64) // Size returns the number of CPUs, and the memory in bytes.
}

// workersOf returns how many trials a machine of this size runs at once: two per CPU, but at most
// one per GiB in three quarters of its memory.
func workersOf(cpus int, memory int64) int {
	return max(1, min(2*cpus, int(memory/4*3>>30), maxAuto))
}

// workers returns the maximum number of concurrent trials, and whether the size of the engine
// may lower it: if no number is configured, and trials cannot interfere with each other.
func (q *Request) workers(c eval.Config) (most int, auto bool) {
	set := int(c.Workers)
	switch {
	case q.Workers > 0:
		return q.Workers, false
	case q.Auto:
		return maxAuto, true
	case q.Isolated && set == 0 && (q.parallel(c) || c.Parallel == nil && !c.FailFast && c.MCPServerLifetime != plan.PerBenchmark):
		return maxAuto, true
	case !q.parallel(c):
		return 1, false
	}
	return cmp.Or(set, defaultWorkers), false
}

func (q *Request) parallel(c eval.Config) bool {
	return q.Parallel || c.Parallel != nil && *c.Parallel
}

// prewarm returns how many sandboxes may be opened in advance.
func (q *Request) prewarm(workers int) int {
	switch {
	case !q.Isolated || q.Host.Hold != nil:
		return 0
	case q.Prewarm >= 0:
		return q.Prewarm
	}
	return min(workers, defaultWorkers)
}

var unsafe = regexp.MustCompile(`[^a-z0-9]+`)

// slug returns name in lower-case letters, digits and dashes, with at most most bytes.
func slug(name string, most int) string {
	slug := strings.Trim(unsafe.ReplaceAllString(strings.ToLower(name), "-"), "-")
	return slug[:min(len(slug), most)]
}

// idTime is the time format at the beginning of an id.
const idTime = "20060102-150405"

var idSecond = regexp.MustCompile(`^\d{8}-\d{6}-`)

// NewID returns a unique id of a run, made of the time and name.
func NewID(name string) string {
	var random [3]byte
	_, _ = rand.Read(random[:])
	return time.Now().UTC().Format(idTime) + "-" + slug(name, 40) + "-" + hex.EncodeToString(random[:])
}
