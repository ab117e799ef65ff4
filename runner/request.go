package runner

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// Choices are the parts of a command line that an eval does not decide. They are kept in
// run.json, so that --resume continues the run as it began.
type Choices struct {
	Isolated bool `json:"isolated"`
	Pace
	Trials      int           `json:"trials_per_task"` // 0 for the eval's
	Timeout     time.Duration `json:"timeout_ns,omitempty"`
	Executor    string        `json:"executor,omitempty"`    // in place of the eval's
	Model       string        `json:"model,omitempty"`       // likewise
	JudgeModel  string        `json:"judge_model,omitempty"` // likewise
	SkipGraders bool          `json:"skip_graders,omitempty"`
	NoAttacks   bool          `json:"no_attacks,omitempty"` // leave out what attacks inject
	NoSkills    bool          `json:"no_skills,omitempty"`  // leave out skills
	Baseline    bool          `json:"baseline,omitempty"`   // the same, to compare a run with skills to
	Retries     int           `json:"infra_retries"`        // times that a trial which infrastructure failed is run again
	ContextDir  string        `json:"context_dir,omitempty"`
	Egress      []string      `json:"egress,omitempty"` // hosts that servers may reach too, each NAME=HOST
	Pull        string        `json:"pull,omitempty"`
	On          string        `json:"on,omitempty"` // the backend, with Isolated: empty for Docker's, or eval.OnKubernetes
	Pins        string        `json:"pins,omitempty"`
	AllowWeak   []string      `json:"allow_weak,omitempty"` // attacks that may get out of the sandbox
}

// Pace is how many trials run at once. It changes no outcome, so that --resume may change it.
type Pace struct {
	Workers  int  `json:"workers"`                // 0 for the eval's
	Governed bool `json:"workers_auto,omitempty"` // Workers is only the most that there may be
	Parallel bool `json:"-"`                      // at once although the eval does not say so
	// Prewarm is how many sandboxes may be open for trials that have not begun; less than 0 for
	// as many as trials run at once, and at most 4.
	Prewarm int `json:"-"`
}

// Request asks for a run.
type Request struct {
	Choices
	Eval string // path of the eval
	// ID is that of a run that is resumed; empty for a new one, of Name and the eval's name.
	ID, Name string
	// Omit names directories of runs, which are left out of what images are built from.
	Omit []string
	// Overlay is laid over the eval's servers; nil for none.
	Overlay *mcpconfig.ClientFile
	// Select returns the tasks to run; nil for all.
	Select func([]eval.ResolvedTask) ([]eval.ResolvedTask, error)
	// Shard takes some of the tasks that Select returns; nil for all.
	Shard *Shard
	// Start is the directory that paths of evals may be relative to; empty for the current one.
	Start           string
	StrictKeys      bool // refuse keys that nothing knows
	HostHooks       bool // let hooks run on this machine
	UpdateSnapshots bool // write what trials leave over the eval's snapshots
	Keyless         bool // plan without the keys of models

	Host
}

// Host is what a run needs of the program that it is part of.
type Host struct {
	trial.Host
	Waza         string                      // version of waza
	Build        func() string               // identifies the build, beside its version
	Lookup       func(string) (string, bool) // finds variables of the environment
	Certificates selftest.Cache

	// CheckScript, CheckModelScript and ModelScript read scripts of agents and models.
	CheckScript      func(json.RawMessage) error
	CheckModelScript func(file string, data []byte) error
	ModelScript      func(file string, data []byte) (plan.ModelScript, error)

	// Open opens the backend of a run.
	Open func(context.Context, Opening) (Backend, error)

	Say    func(string)              // reports what takes a while
	Warn   func(error)               // reports failures that harm no trial
	Notice func([]*strictyaml.Error) // reports parts of the eval's files that have no effect
	// Watch begins to show the progress of a number of trials, so many of them at once. It
	// returns functions that take each update, and that end the display.
	Watch func(ctx context.Context, trials, workers int) (update func(Update), end func())
}

// Opening says what a backend is opened for.
type Opening struct {
	Run      string // the run's id
	Isolated bool   // in containers
	Resume   bool   // a run of this id has died, and is to be taken up
	Trials   []*plan.Trial
	// AllowWeak names attacks that may get out of the sandbox.
	AllowWeak []string
}

// Backend is what trials of a run run on: containers, or processes of this machine.
type Backend interface {
	trial.Backend
	Close(ctx context.Context) error
}

// Preparer is a [Backend] that has to prepare for trials before they start.
type Preparer interface {
	// prepare gets everything that the trials need. Its error says what is missing.
	Prepare(ctx context.Context, trials []*plan.Trial, say func(string)) error
}

// prepare prepares a backend for trials, if it is a [Preparer].
func prepare(ctx context.Context, b Backend, trials []*plan.Trial, say func(string)) error {
	if p, ok := b.(Preparer); ok {
		return p.Prepare(ctx, trials, say)
	}
	return nil
}

// Describer is a [Backend] that describes itself for run.json.
type Describer interface {
	Describe() map[string]string   // names the engine
	Images() evidence.ImageRecords // returns the images that were used, by reference
}

// describe returns the engine and the images of a backend; nil if it is no [Describer].
func describe(b Backend) (engine map[string]string, images evidence.ImageRecords) {
	if d, ok := b.(Describer); ok {
		return d.Describe(), d.Images()
	}
	return nil, nil
}

// Installer is a [Backend] that installs packages into images of their own.
type Installer interface {
	// Platform is such as linux/amd64.
	Platform() string
	// Resolve asks the registry which version a package is today, and all that it needs.
	Resolve(ctx context.Context, i images.Image, lock *images.Lock) (images.Entry, error)
}

// Mistake is an error that the user can correct: in the command line, in a file, or in the
// environment. Nothing was run.
type Mistake struct{ error }

// Unwrap returns the error.
func (m Mistake) Unwrap() error { return m.error }

func mistake(format string, args ...any) error { return Mistake{fmt.Errorf(format, args...)} }

// defaultWorkers is how many trials run at once where they may and nothing says how many.
const defaultWorkers = 4

// workers returns how many trials of e run at once at most, and whether that depends on what
// machine and models bear: nobody has said how many, and trials cannot disturb each other.
func (q *Request) workers(c eval.Config) (most int, governed bool) {
	set := int(c.Workers)
	switch {
	case q.Workers > 0:
		return q.Workers, q.Governed
	case q.Governed:
		return mostGoverned, true
	case q.Isolated && set == 0 && (q.parallel(c) || c.Parallel == nil && !c.FailFast && c.MCPServerLifetime != plan.PerBenchmark):
		return mostGoverned, true
	case !q.parallel(c):
		return 1, false
	}
	return cmp.Or(set, defaultWorkers), false
}

func (q *Request) parallel(c eval.Config) bool {
	return q.Parallel || c.Parallel != nil && *c.Parallel
}

// prewarm returns how many sandboxes are opened before their trials begin.
func (q *Request) prewarm(workers int) int {
	switch {
	case !q.Isolated || q.Hold != nil:
		return 0
	case q.Prewarm >= 0:
		return q.Prewarm
	}
	return min(workers, defaultWorkers)
}

var unsafe = regexp.MustCompile(`[^a-z0-9]+`)

// slug returns a name in lower-case letters, digits and dashes, of at most so many bytes.
func slug(name string, most int) string {
	slug := strings.Trim(unsafe.ReplaceAllString(strings.ToLower(name), "-"), "-")
	return slug[:min(len(slug), most)]
}

// idTime is how an id begins.
const idTime = "20060102-150405"

var idSecond = regexp.MustCompile(`^\d{8}-\d{6}-`)

// NewID returns an id of a run, by time and name, that no other run has.
func NewID(name string) string {
	var random [3]byte
	_, _ = rand.Read(random[:])
	return time.Now().UTC().Format(idTime) + "-" + slug(name, 40) + "-" + hex.EncodeToString(random[:])
}
