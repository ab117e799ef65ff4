package runner

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner/plan"
)

// Files of a run directory, beside its trials.
const (
	RunFile     = "run.json"
	ResultsFile = "results.json"
	// BaselineFile is what the same run came to without skills, where there is one.
	BaselineFile = "baseline.json"
)

// Record is run.json: what the run was, and at its end the digest of every file.
type Record struct {
	ID          string                `json:"id"`
	Waza        string                `json:"waza"`            // our version
	Build       string                `json:"build,omitempty"` // of our executable: the beginning of its SHA-256
	Eval        EvalRecord            `json:"eval"`
	Inputs      map[string]string     `json:"inputs,omitempty"` // SHA-256 of the other files that were read, by path from the eval's directory
	Plan        string                `json:"plan,omitempty"`   // as PlanDigest; empty until images are there
	MCP         *MCPRecord            `json:"mcp,omitempty"`    // where the command line overlaid servers
	Started     time.Time             `json:"started"`
	Resumed     []time.Time           `json:"resumed,omitempty"`
	Ended       time.Time             `json:"ended,omitzero"`
	Interrupted bool                  `json:"interrupted,omitempty"`
	Directory   string                `json:"directory,omitempty"` // that relative paths of the command line are from
	Choices                           // Workers and Trials are the eval's where the command line says none
	FailFast    bool                  `json:"fail_fast,omitempty"`
	MaxAttempts int                   `json:"max_attempts,omitempty"`
	Against     string                `json:"against,omitempty"` // directory of the same run without skills
	Network     string                `json:"network"`
	Tasks       []TaskRecord          `json:"tasks"`
	Metrics     []results.MetricSpec  `json:"metrics,omitempty"`
	Engine      map[string]string     `json:"engine,omitempty"`
	Images      evidence.ImageRecords `json:"images,omitempty"`
	Models      *plan.Models          `json:"models,omitempty"` // that agents may ask
	Guarantees  *evidence.Guarantees  `json:"guarantees,omitempty"`
	// Certificate is what came of trying to get out of a sandbox; nil without any.
	Certificate *evidence.Certificate `json:"certificate,omitempty"`
	Files       map[string]string     `json:"files,omitempty"` // SHA-256 by path
}

// EvalRecord says which eval was run.
type EvalRecord struct {
	Path           string `json:"path"`
	SHA256         string `json:"sha256"`
	Name           string `json:"name"`
	Skill          string `json:"skill,omitempty"`
	Version        string `json:"version,omitempty"`
	Executor       string `json:"executor"`
	Model          string `json:"model,omitempty"`
	JudgeModel     string `json:"judge_model,omitempty"` // that the eval names
	TimeoutSeconds int    `json:"timeout_seconds"`
	GroupBy        string `json:"group_by,omitempty"`

	Labels map[string]json.RawMessage `json:"labels,omitempty"`
}

// MCPRecord says which file of MCP servers was laid over the eval's.
type MCPRecord struct {
	Path    string   `json:"path"`
	SHA256  string   `json:"sha256"`
	Servers []string `json:"servers"` // those it brought, sorted
}

// TaskRecord is a task that the run was to run.
type TaskRecord struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	Labels map[string]json.RawMessage `json:"labels,omitempty"`

	Trigger *results.TriggerTest `json:"trigger_test,omitempty"`
}

// NewRecord is the record of a run of eval that is about to start. overlay is what
// was laid over its servers, or nil.
func NewRecord(e *eval.Eval, tasks []eval.ResolvedTask, overlay *mcpconfig.ClientFile) (Record, error) {
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
		r.Tasks = append(r.Tasks, TaskRecord{ID: t.ID, Name: t.Name, Labels: t.Labels, Trigger: triggerOf(t)})
	}
	for _, m := range e.Metrics {
		if m.On() {
			r.Metrics = append(r.Metrics, metricSpec(m))
		}
	}
	return r, nil
}

// triggerOf is what the results say of a prompt of trigger_tests.yaml; nil for other tasks.
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

// Write writes run.json into the run directory dir.
func (r Record) Write(dir string) error {
	data, err := evidence.MarshalIndent(r)
	if err != nil {
		return err
	}
	return evidence.WriteFile(filepath.Join(dir, RunFile), data)
}

// ReadRecord reads the run.json of the run directory dir, which may be a stranger's: what
// has links, or names that lead out of it, fails with [evidence.ErrNotPlain].
func ReadRecord(dir string) (Record, error) {
	var r Record
	err := evidence.ReadJSON(dir, RunFile, &r)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return r, fmt.Errorf("%s is not a run directory: it has no %s", dir, RunFile)
	}
	if err != nil {
		return r, err
	}
	return r, errors.Join(r.staysIn(dir), evidence.CheckPlain(dir))
}

// staysIn holds that files and tasks of a record, which are paths below dir, lead nowhere
// else.
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

// digestIn is the SHA-256 of a file of the run directory dir, by its path with slashes.
func digestIn(dir, name string) (string, error) {
	file, err := evidence.Open(dir, filepath.FromSlash(name))
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	return files.DigestOf(file)
}

// Planned is how many trials the run was to run.
func (r Record) Planned() (all int) {
	for _, task := range r.Tasks {
		all += r.TrialsOf(task)
	}
	return all
}

// TrialsOf is how many trials of a task it was to run.
func (r Record) TrialsOf(task TaskRecord) int {
	if task.Trigger != nil {
		return 1
	}
	return r.Trials
}

// Seal adds the digest of every file of the run directory and writes run.json.
func (r Record) Seal(dir string) error {
	r.Files = map[string]string{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil || name == RunFile {
			return err
		}
		r.Files[filepath.ToSlash(name)], err = files.Digest(file)
		return err
	})
	if err != nil {
		return err
	}
	return r.Write(dir)
}

// Reseal takes in what grading wrote anew, as far as it is there, and leaves the digests
// of evidence as the run left them.
func (r Record) Reseal(dir string) error {
	if r.Files == nil {
		return nil // the run never came to its end
	}
	sealed := maps.Clone(r.Files)
	for _, name := range []string{ReportFile, JUnitFile} {
		sealed[name] = "" // a run of before may have none
	}
	for name := range sealed {
		if !regraded(name) {
			continue
		}
		sum, err := digestIn(dir, name)
		switch {
		case err == nil:
			r.Files[name] = sum
		case errors.Is(err, fs.ErrNotExist):
			delete(r.Files, name)
		default:
			return err
		}
	}
	return r.Write(dir)
}

// regraded says whether grading writes a file.
func regraded(name string) bool {
	if wasSetAside(name) {
		return false
	}
	switch path.Base(name) {
	case evidence.CallsFile, evidence.CatalogsFile, evidence.NarrationFile, evidence.VerdictsFile, ResultsFile, ReportFile, JUnitFile:
		return true
	}
	return false
}

// ExitCode is the results' own, but for trials that have no outcome at all, as
// after a crash or an interruption.
func (r Record) ExitCode(s results.Results) int {
	code, missing := s.ExitCode(), r.Planned()
	for _, task := range s.Tasks {
		missing -= len(task.Runs)
	}
	if missing > 0 && !(r.FailFast && code == exitFailed) {
		return exitInfra
	}
	return code
}

// The exit codes that a record decides between; see results.Results.ExitCode.
const (
	exitFailed = 1
	exitInfra  = 3
)

// Changed lists files of the run directory that are no longer as they were when
// the run was sealed, but for those that grading writes anew. [Record.Gone] lists those
// that are not there.
func (r Record) Changed(dir string) ([]string, error) {
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		if regraded(name) {
			continue
		}
		sum, err := digestIn(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if sum != r.Files[name] {
			changed = append(changed, name)
		}
	}
	return changed, nil
}

// Trials lists the trials that have ended in a run directory, by task and number.
func Trials(dir string) ([]evidence.Dir, error) {
	found, err := fs.Glob(os.DirFS(dir), trialsDir+"/*/*/"+evidence.TrialFile)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, byTaskAndNumber)
	var dirs []evidence.Dir
	for _, file := range found {
		dirs = append(dirs, evidence.Dir(filepath.Join(dir, filepath.FromSlash(path.Dir(file)))))
	}
	return dirs, nil
}

// byTaskAndNumber orders paths of trials: 10 comes after 2.
func byTaskAndNumber(a, b string) int {
	a, b = path.Dir(a), path.Dir(b)
	return cmp.Or(
		cmp.Compare(path.Dir(a), path.Dir(b)),
		cmp.Compare(len(path.Base(a)), len(path.Base(b))),
		cmp.Compare(a, b),
	)
}

// Regrade grades every trial of a run directory anew, from its evidence alone.
func Regrade(dir string) error {
	trials, err := Trials(dir)
	if err != nil {
		return err
	}
	for _, trial := range trials {
		if _, err := grade(trial); err != nil {
			return err
		}
	}
	return nil
}

// grade grades a trial from its evidence, and keeps the verdicts there.
func grade(dir evidence.Dir) (evidence.Verdicts, error) {
	verdicts, err := grading.Grade(dir)
	if err != nil {
		return verdicts, err
	}
	return verdicts, dir.WriteVerdicts(verdicts)
}

// Summarise computes a run's results from its directory and writes results.json. It
// holds the evidence of one trial at a time.
func Summarise(dir string, r Record) (results.Results, error) {
	summary, found, err := compute(dir, r)
	if err != nil {
		return results.Results{}, err
	}
	return summary, evidence.WriteFileBy(filepath.Join(dir, ResultsFile), func(w io.Writer) error {
		return summary.Write(w, func(task string, number int) (results.Trial, error) {
			return readTrial(found[plan.TrialID{Task: task, Number: number}])
		})
	})
}

// Complete is a run of a task with what its trial says, as results.json has it.
func Complete(dir, task string, run results.RunResult) (results.RunResult, error) {
	trial, err := readTrial(evidence.Dir(filepath.Join(dir, trialsDir, task, strconv.Itoa(run.RunNumber))))
	if err != nil {
		return run, err
	}
	return run.Complete(trial), nil
}

// compute computes a run's results over the trials that have verdicts, and says where
// these are.
func compute(dir string, r Record) (results.Results, map[plan.TrialID]evidence.Dir, error) {
	dirs, err := Trials(dir)
	if err != nil {
		return results.Results{}, nil, err
	}
	builder := results.NewBuilder(r.info())
	found := map[plan.TrialID]evidence.Dir{}
	for _, d := range dirs {
		trial, err := readTrial(d)
		if err != nil {
			return results.Results{}, nil, err
		}
		if trial.Verdicts.Class == "" {
			continue
		}
		found[plan.TrialID{Task: trial.Task, Number: trial.Number}] = d
		if err := addTrial(builder, d, trial); err != nil {
			return results.Results{}, nil, err
		}
	}
	computed := builder.Results()
	return computed, found, addBaseline(dir, &computed)
}

// addBaseline holds results against those of the same run without skills, where the run
// directory has them.
func addBaseline(dir string, to *results.Results) error {
	data, err := evidence.ReadFile(dir, BaselineFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var base results.Results
	if err == nil {
		err = json.Unmarshal(data, &base)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", BaselineFile, err)
	}
	return to.Against(base)
}

// WriteBaseline keeps in the run directory dir what the run in baseline came to, but for what
// agents said: that is in the run's own results.json.
func WriteBaseline(dir, baseline string) error {
	record, err := ReadRecord(baseline)
	if err != nil {
		return err
	}
	base, _, err := compute(baseline, record)
	if err != nil {
		return err
	}
	data, err := evidence.MarshalIndent(base)
	if err != nil {
		return err
	}
	return evidence.WriteFile(filepath.Join(dir, BaselineFile), data)
}

// addTrial adds a trial and the attempts that came before it.
func addTrial(to *results.Builder, d evidence.Dir, trial results.Trial) error {
	if err := to.Add(trial); err != nil {
		return err
	}
	earlier, err := d.Earlier()
	if err != nil {
		return err
	}
	for _, attempt := range earlier {
		verdicts := evidence.Verdicts{Class: attempt.Class, Reason: attempt.Reason, Message: attempt.Message}
		if err := to.Add(results.Trial{Trial: attempt, Verdicts: verdicts}); err != nil {
			return err
		}
	}
	return nil
}

// readTrial reads one trial's evidence and verdicts. A trial that a crash kept
// from being graded has no verdicts.
func readTrial(d evidence.Dir) (results.Trial, error) {
	var t results.Trial
	var err error
	if t.Trial, err = d.Trial(); err != nil {
		return t, err
	}
	t.Path = filepath.ToSlash(string(TrialDir("", t.Task, t.Number)))
	if t.Verdicts, err = d.Verdicts(); errors.Is(err, fs.ErrNotExist) {
		return t, nil
	} else if err != nil {
		return t, err
	}
	return readRecorded(d, t)
}

// readRecorded is t with what its evidence holds beside trial.json.
func readRecorded(d evidence.Dir, t results.Trial) (results.Trial, error) {
	var err error
	if t.Calls, err = d.Calls(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if n, err := d.Narration(); err == nil {
		t.Narration = &n
	} else if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if t.Catalogs, err = d.Catalogs(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if t.Events, err = d.Events(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	t.Events = slices.DeleteFunc(t.Events, func(e evidence.Event) bool { return !results.OfServers(e) })
	if err := readConduct(d, &t); err != nil {
		return t, err
	}
	if t.Steps, err = d.Steps(); err != nil {
		return t, err
	}
	for _, c := range t.Checkpoints {
		steps, err := d.Checkpoint(c.AfterTurn).Steps()
		if err != nil {
			return t, err
		}
		t.Steps = append(t.Steps, steps...)
	}
	t.Gateway = d.Gateway(t.Trial)
	for call, err := range d.ModelCalls() {
		if err != nil {
			break // grading has said what is wrong with it
		}
		call.Request, call.Response = nil, nil
		t.Models = append(t.Models, call)
	}
	t.Transcript, _ = d.Transcript() // the agent's word; grading has said what is wrong with it
	return t, nil
}

// readConduct reads what a trial's servers did beside answering.
func readConduct(d evidence.Dir, t *results.Trial) (err error) {
	if t.Observed, err = d.Observed(); err != nil {
		return err
	}
	if len(t.Redacted) > 0 {
		if t.Echoes, err = d.Echoes(t.Trial); err != nil {
			return err
		}
	}
	t.Stderr = map[string]results.Written{}
	for _, s := range t.Servers {
		bytes, lines, err := d.ServerWrote(s.Name)
		if err != nil {
			return err
		}
		t.Stderr[s.Name] = results.Written{Bytes: bytes, Lines: lines}
	}
	return nil
}

// Weak names the attacks that get out of the run's sandboxes, which its command line
// lets.
func (r Record) Weak() []string {
	if r.Certificate == nil {
		return nil
	}
	var names []string
	for _, a := range r.Certificate.With(evidence.AttackGotOut) {
		names = append(names, a.Name)
	}
	return names
}

func (r Record) info() results.Run {
	run := results.Run{
		ID: r.ID, EvalName: r.Eval.Name, Skill: r.Eval.Skill, Labels: r.Eval.Labels, Model: r.Eval.Model, Executor: r.Eval.Executor, JudgeModel: r.Eval.JudgeModel,
		Timeout: time.Duration(r.Eval.TimeoutSeconds) * time.Second, TrialsPerTask: r.Trials, Isolated: r.Isolated,
		Started: r.Started, Ended: r.Ended, Metrics: r.Metrics, Weak: r.Weak(), NoAttacks: r.NoAttacks, NoSkills: r.NoSkills, IsBaseline: r.Baseline,
	}
	if r.Timeout > 0 {
		run.Timeout = r.Timeout
	}
	if r.Eval.GroupBy == eval.GroupByModel {
		run.Group = cmp.Or(r.Eval.Model, r.Eval.Executor)
	}
	for _, t := range r.Tasks {
		run.Tasks = append(run.Tasks, results.TaskInfo(t))
	}
	return run
}
