package runner

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner/plan"
)

// Record is the content of run.json: what the run was and, after its end, the digest of every
// file.
type Record struct {
	ID          string                `json:"id"`
	Waza        string                `json:"waza"`            // version of waza
	Build       string                `json:"build,omitempty"` // the beginning of the executable's SHA-256
	Eval        EvalRecord            `json:"eval"`
	Inputs      map[string]string     `json:"inputs,omitempty"` // SHA-256 of the other input files, by path relative to the eval's directory
	Plan        string                `json:"plan,omitempty"`   // see planDigest; empty until images are available
	MCP         *MCPRecord            `json:"mcp,omitempty"`    // overlay of servers by the command line
	Started     time.Time             `json:"started"`
	Resumed     []time.Time           `json:"resumed,omitempty"`
	Ended       time.Time             `json:"ended,omitzero"`
	Interrupted bool                  `json:"interrupted,omitempty"`
	Directory   string                `json:"directory,omitempty"` // working directory of the command line
	Choices                           // Workers and Trials contain the eval's values if the command line has none
	FailFast    bool                  `json:"fail_fast,omitempty"`
	MaxAttempts int                   `json:"max_attempts,omitempty"`
	Against     string                `json:"against,omitempty"` // directory of the baseline run without skills
	Shard       *Shard                `json:"shard,omitempty"`   // nil for a whole run
	Merged      []string              `json:"merged,omitempty"`  // ids of the merged shards, or of the run whose trials were kept and those merged there
	Network     string                `json:"network"`
	Tasks       []TaskRecord          `json:"tasks"`
	LeftOut     []string              `json:"left_out,omitempty"` // tasks of the eval that the command line did not select
	Metrics     []results.MetricSpec  `json:"metrics,omitempty"`
	Engine      map[string]string     `json:"engine,omitempty"`
	Images      evidence.ImageRecords `json:"images,omitempty"`
	Models      *plan.Models          `json:"models,omitempty"` // models that agents may ask
	Guarantees  *evidence.Guarantees  `json:"guarantees,omitempty"`
	// Certificate is the result of attacking the sandbox; may be nil.
	Certificate *evidence.Certificate `json:"certificate,omitempty"`
	Files       Digests               `json:"files,omitempty"` // nil until the run has ended
}

// EvalRecord identifies the eval.
type EvalRecord struct {
	Path           string `json:"path"`
	SHA256         string `json:"sha256"`
	Name           string `json:"name"`
	Skill          string `json:"skill,omitempty"`
	Version        string `json:"version,omitempty"`
	Executor       string `json:"executor"`
	Model          string `json:"model,omitempty"`
	JudgeModel     string `json:"judge_model,omitempty"` // named by the eval
	TimeoutSeconds int    `json:"timeout_seconds"`
	GroupBy        string `json:"group_by,omitempty"`

	Labels map[string]json.RawMessage `json:"labels,omitempty"`
}

// MCPRecord identifies the file of MCP servers that was laid over the eval's.
type MCPRecord struct {
	Path    string   `json:"path"`
	SHA256  string   `json:"sha256"`
	Servers []string `json:"servers"` // servers in the file, sorted
}

// TaskRecord is a task of the run.
type TaskRecord struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	File string `json:"file,omitempty"` // relative to the eval's directory
	Line int    `json:"line,omitempty"` // line of the task in File; 0 if the file is a single task

	Golden bool `json:"golden,omitempty"`
	Kept   bool `json:"kept,omitempty"` // its trials are those of the run that this one repeats

	Labels map[string]json.RawMessage `json:"labels,omitempty"`

	Trigger *results.TriggerTest `json:"trigger_test,omitempty"`
}

// recordOf returns the record of a new run of an eval. overlay may be nil.
func recordOf(e *eval.Eval, tasks []eval.ResolvedTask, overlay *mcpconfig.ClientFile) (Record, error) {
	content, err := files.Read(e.Path, strictyaml.MaxBytes)
	if err != nil {
		return Record{}, err
	}
	sum := sha256.Sum256(content)
	r := Record{
		Started: time.Now().UTC(),
		Eval: EvalRecord{
			Path: e.Path, SHA256: hex.EncodeToString(sum[:]), Name: e.Name, Skill: e.Skill, Version: e.Version,
			Executor: e.Config.Executor, Model: e.Config.Model, JudgeModel: e.Config.NamedJudge(), TimeoutSeconds: e.Config.TimeoutSeconds,
			GroupBy: e.Config.GroupBy, Labels: e.Labels(),
		},
	}
	if overlay != nil {
		r.MCP = &MCPRecord{Path: overlay.Name, SHA256: overlay.SHA256, Servers: slices.Sorted(maps.Keys(overlay.Servers))}
	}
	for _, t := range tasks {
		file, err := filepath.Rel(e.Dir(), t.Path)
		if err != nil {
			file = t.Path
		}
		r.Tasks = append(r.Tasks, TaskRecord{ID: t.ID, Name: t.Name, File: filepath.ToSlash(file), Line: t.Line, Golden: t.Golden, Labels: t.Labels, Trigger: triggerOf(t)})
	}
	for _, m := range e.Metrics {
		if m.On() {
			r.Metrics = append(r.Metrics, metricSpec(m))
		}
	}
	return r, nil
}

// triggerOf returns the trigger test of a task for the results, or nil.
func triggerOf(t eval.ResolvedTask) *results.TriggerTest {
	if t.Trigger == nil {
		return nil
	}
	return &results.TriggerTest{Prompt: t.Prompt, ShouldTrigger: t.Trigger.ShouldTrigger, Confidence: t.Trigger.Confidence}
}

func metricSpec(m eval.Metric) results.MetricSpec {
	out := results.MetricSpec{Name: m.Name, Weight: 1}
	if m.Weight != nil {
		out.Weight = *m.Weight
	}
	if m.Threshold != nil {
		out.Threshold = *m.Threshold
	}
	return out
}

// Write writes run.json to the run directory dir.
func (r Record) Write(dir string) error {
	return evidence.WriteJSON(filepath.Join(dir, RunFile), r)
}

// ReadRecord reads run.json of the run directory dir. The directory is not trusted: if it
// contains links, or names that lead out of it, the error is [evidence.ErrNotPlain].
func ReadRecord(dir string) (Record, error) {
	var r Record
	err := evidence.ReadJSON(dir, RunFile, &r)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return r, fmt.Errorf("%s is not a run directory: it has no %s; runs are in .waza/runs, unless --run-dir named another place", dir, RunFile)
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		err = fmt.Errorf("%w; nothing can be done with the run", err)
	}
	if err != nil {
		return r, err
	}
	maps.DeleteFunc(r.Files, func(name, _ string) bool { return regraded(name) }) // older runs list them
	return r, errors.Join(r.staysIn(dir), evidence.CheckPlain(dir))
}

// staysIn checks that the files and tasks of a record are paths below dir.
func (r Record) staysIn(dir string) error {
	for name := range r.Files {
		if !fs.ValidPath(name) {
			return fmt.Errorf("%s names the file %q, which is not in it: %w", filepath.Join(dir, RunFile), name, evidence.ErrNotPlain)
		}
	}
	for _, t := range r.Tasks {
		if !fs.ValidPath(t.ID) || strings.Contains(t.ID, "/") {
			return fmt.Errorf("%s names the task %q, which cannot have a directory: %w", filepath.Join(dir, RunFile), t.ID, evidence.ErrNotPlain)
		}
	}
	return nil
}

// ran reports whether the run with the given id ran trials of this one.
func (r Record) ran(id string) bool { return id == r.ID || slices.Contains(r.Merged, id) }

// Planned returns how many trials the run has.
func (r Record) Planned() (all int) {
	for _, task := range r.Tasks {
		all += r.TrialsOf(task)
	}
	return all
}

// trials iterates over the planned trials in order.
func (r Record) trials() iter.Seq2[evidence.TrialID, TaskRecord] {
	return func(yield func(evidence.TrialID, TaskRecord) bool) {
		for _, task := range r.Tasks {
			for number := 1; number <= r.TrialsOf(task); number++ {
				if !yield(evidence.TrialID{Task: task.ID, Number: number}, task) {
					return
				}
			}
		}
	}
}

// TrialsOf returns how many trials of a task the run has.
func (r Record) TrialsOf(task TaskRecord) int {
	if task.Trigger != nil {
		return 1
	}
	return r.Trials
}

// WriteDigests adds the digest of every file of evidence and writes run.json.
func (r Record) WriteDigests(dir string) (err error) {
	if r.Files, err = digestsOf(dir); err != nil {
		return err
	}
	return r.Write(dir)
}

// renew updates the digests of a file of a trial, and of its checkpoints, that was written
// after the end of the run.
func (r Record) renew(dir string, trial evidence.Dir, name string) error {
	if r.Files == nil {
		return nil
	}
	if err := r.Files.renew(dir, trial, name); err != nil {
		return err
	}
	return r.Write(dir)
}

// Weak returns the names of attacks that get out of the run's sandboxes and that the command
// line allows.
func (r Record) Weak() []string {
	if r.Certificate == nil {
		return nil
	}
	var names []string
	for _, a := range r.Certificate.With(evidence.AttackGotOut) {
		if a.Allowed {
			names = append(names, a.Name)
		}
	}
	return names
}

// forResults returns the data about the run that results contain besides its trials.
func (r Record) forResults() results.Run {
	run := results.Run{Ended: r.Ended, Specs: r.Metrics, Results: results.Results{
		EvalID: r.ID, Skill: r.Eval.Skill, EvalName: r.Eval.Name, Timestamp: r.Started.UTC(), Labels: r.Eval.Labels, IsBaseline: r.Baseline,
		Config: results.Config{
			RunsPerTest: r.Trials, ModelID: r.Eval.Model, EngineType: r.Eval.Executor, JudgeModel: r.Eval.JudgeModel,
			TimeoutSec: r.Eval.TimeoutSeconds, Isolated: r.Isolated, Weak: r.Weak(), NoAttacks: r.NoAttacks, NoSkills: r.NoSkills, NoFaults: r.Faults == eval.NoFaults,
		},
	}}
	if r.Timeout > 0 {
		run.Config.TimeoutSec = int(r.Timeout / time.Second)
	}
	group := ""
	if r.Eval.GroupBy == eval.GroupByModel {
		group = cmp.Or(r.Eval.Model, r.Eval.Executor)
	}
	for _, t := range r.Tasks {
		run.Tasks = append(run.Tasks, results.Task{TestID: t.ID, DisplayName: t.Name, Group: group, Golden: t.Golden, Labels: t.Labels, Trigger: t.Trigger})
	}
	return run
}

// leftOut returns the tasks of the eval that this run does not run: the command line did not select
// them, or they are in other shards.
func (r Record) leftOut() []string {
	all := slices.Clone(r.LeftOut)
	if r.Shard != nil {
		for _, id := range r.Shard.Tasks {
			if !slices.ContainsFunc(r.Tasks, func(t TaskRecord) bool { return t.ID == id }) {
				all = append(all, id)
			}
		}
	}
	return all
}

// Settings returns the settings of a run that may differ between compared runs.
func (r Record) Settings() []results.Setting {
	all := []results.Setting{
		{Name: "eval file", Value: shortDigest(r.Eval.SHA256)},
		{Name: "waza", Value: strings.TrimSpace(r.Waza + " " + r.Build)},
		{Name: "network", Value: r.Network},
		{Name: "skills left out", Value: map[bool]string{true: "yes", false: "no"}[r.NoSkills]},
		{Name: "faults", Value: cmp.Or(r.Faults, "the eval's")},
		{Name: "engine", Value: r.Engine["version"]},
	}
	for _, path := range slices.Sorted(maps.Keys(r.Inputs)) {
		all = append(all, results.Setting{Name: "file " + path, Value: shortDigest(r.Inputs[path])})
	}
	if r.MCP != nil {
		all = append(all, results.Setting{Name: "servers laid over", Value: shortDigest(r.MCP.SHA256)})
	}
	if len(r.Egress) > 0 {
		all = append(all, results.Setting{Name: "hosts allowed", Value: strings.Join(r.Egress, ", ")})
	}
	built := map[string][]string{} // digests in the tags of images of servers that waza builds, by repository
	for _, ref := range slices.Sorted(maps.Keys(r.Images)) {
		repository, tag, _ := strings.Cut(ref, ":")
		if repository == images.SourceRepository || repository == images.Repository {
			built[repository] = append(built[repository], shortDigest(tag))
			continue
		}
		all = append(all, results.Setting{Name: "image " + ref, Value: shortDigest(strings.TrimPrefix(r.Images[ref].ID, "sha256:"))})
	}
	for _, repository := range slices.Sorted(maps.Keys(built)) {
		all = append(all, results.Setting{Name: "image " + repository, Value: strings.Join(built[repository], ", ")})
	}
	return all
}

// ended reports whether all trials of a task have ended and were graded.
func (r Record) ended(dir string, task TaskRecord) (bool, error) {
	for number := 1; number <= r.TrialsOf(task); number++ {
		v, err := TrialDir(dir, task.ID, number).Verdicts()
		if errors.Is(err, fs.ErrNotExist) || err == nil && v.Class == "" {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// kept returns how many trials are those of an earlier run.
func (r Record) kept() (n int) {
	for _, t := range r.Tasks {
		if t.Kept {
			n += r.TrialsOf(t)
		}
	}
	return n
}

// described is what results state once for all trials, except for their time limit.
type described struct {
	Eval string `json:"eval"`
	results.Config
	AllowWeak []string `json:"allow_weak"`
}

func (r Record) described() described {
	d := described{r.Eval.Name, r.forResults().Config, slices.Sorted(slices.Values(r.AllowWeak))}
	d.TimeoutSec, d.Weak = 0, nil
	return d
}

// Again returns a request with the options of the run's command line, but without eval and
// host. readOverlay reads the file that was laid over the eval's servers.
func (r Record) Again(readOverlay func(path string) (*mcpconfig.ClientFile, error)) (q Request, err error) {
	q = Request{Choices: r.Choices, Start: r.Directory}
	if q.Cassette != "" {
		q.Cassette = fromDirectory(r, q.Cassette)
	}
	if q.Faults != "" && q.Faults != eval.NoFaults {
		q.Faults = fromDirectory(r, q.Faults)
	}
	if q.ContextDir != "" {
		q.ContextDir = fromDirectory(r, q.ContextDir)
	}
	if r.MCP != nil {
		q.Overlay, err = readOverlay(fromDirectory(r, r.MCP.Path))
	}
	return q, err
}

// EvalPath returns the path of the run's eval.
func (r Record) EvalPath() string { return fromDirectory(r, r.Eval.Path) }

// NotPassed returns the ids of the planned tasks with a trial that did not pass, in order.
func (r Record) NotPassed(dir string) (ids []string, err error) {
	run, err := ViewOf(dir, r)
	if err != nil {
		return nil, err
	}
	passed := map[string]bool{}
	for _, task := range run.Results.Tasks {
		t := view.TaskOf(task, r.Trials)
		passed[task.TestID] = t.Status == results.StatusPassed && len(t.Missing) == 0
	}
	for _, task := range r.Tasks {
		if !passed[task.ID] {
			ids = append(ids, task.ID)
		}
	}
	return ids, nil
}

// shortDigest returns the beginning of a digest.
func shortDigest(digest string) string { return fmt.Sprintf("%.12s", digest) }
