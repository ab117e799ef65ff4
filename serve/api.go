package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Page sizes of the list of runs.
const (
	usualPage = 100
	maxPage   = 1000
)

// RunList is the response of /api/v1/runs.
type RunList struct {
	Total  int              `json:"total"`          // number of runs
	Offset int              `json:"offset"`         // index of the first run in the list
	Next   *int             `json:"next,omitempty"` // offset of the next page; omitted on the last page
	Runs   []view.ListedRun `json:"runs"`           // in the requested order
}

func (s *Server) apiRuns(r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, err := numberOf(q, "limit", usualPage, 1, maxPage)
	offset, err2 := numberOf(q, "offset", 0, 0, 1<<30)
	order, err3 := orderOf(q)
	if err := cmp.Or(err, err2, err3); err != nil {
		return nil, err
	}
	runs, err := s.runs.list()
	if err != nil {
		return nil, err
	}
	if order != nil {
		slices.SortStableFunc(runs, order)
	}
	list := RunList{Total: len(runs), Offset: offset}
	from := min(offset, len(runs))
	to := min(from+limit, len(runs))
	if list.Runs = runs[from:to]; to < len(runs) {
		list.Next = &to
	}
	return list, nil
}

// numberOf parses a number in a query.
func numberOf(q url.Values, name string, usual, least, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badRequest("%s must be a number from %d to %d.", name, least, most)
	}
	return n, nil
}

// orderOf parses the order of runs in a query; nil means newest first.
func orderOf(q url.Values) (func(a, b view.ListedRun) int, error) {
	switch q.Get("order") {
	case "", "newest":
		return nil, nil
	case "oldest":
		return func(a, b view.ListedRun) int { return newestFirst(b, a) }, nil
	case "id":
		return func(a, b view.ListedRun) int { return cmp.Compare(a.ID, b.ID) }, nil
	}
	return nil, badRequest("order must be newest, oldest or id.")
}

func (s *Server) apiRun(r *http.Request) (any, error) {
	run, shown, err := s.find(r)
	if err != nil {
		return nil, err
	}
	d := RunDetail{
		ListedRun: run, EvalFile: shown.Eval, EvalSHA256: shown.EvalSHA256, Waza: shown.Waza, Weak: shown.Results.Config.Weak, Results: []TaskDetail{},
	}
	if s := shown.Results.Summary; s.Statistics != nil && s.Ended() > 0 {
		d.Success = &s.Statistics.SuccessRateCI
	}
	for _, task := range shown.Results.Tasks {
		d.Results = append(d.Results, taskDetail(task))
	}
	return d, nil
}

func (s *Server) apiProgress(r *http.Request) (any, error) {
	return s.watches.progress(r.PathValue("id"))
}

func (s *Server) apiCompare(r *http.Request) (any, error) {
	comparison, _, err := s.compare(strings.Split(r.URL.Query().Get("runs"), ","))
	return comparison, err
}

// RunDetail is the response of /api/v1/runs/ID.
type RunDetail struct {
	view.ListedRun
	EvalFile   string            `json:"eval_file"`                 // path of the eval, as given to the run
	EvalSHA256 string            `json:"eval_sha256"`               // SHA-256 of that file
	Waza       string            `json:"waza"`                      // version of waza that ran it
	Weak       []string          `json:"weak,omitempty"`            // attacks that can escape the sandbox, as allowed on the command line; omitted if there are none
	Success    *results.Interval `json:"success_rate_ci,omitempty"` // share of the tasks that have ended that passed, from 0 to 1, with its 95% interval; omitted if none has ended
	Results    []TaskDetail      `json:"results"`                   // results of each task, over the trials with verdicts
}

// TaskDetail is a task of a run.
type TaskDetail struct {
	ID       string            `json:"id"`                     // id of the task
	Name     string            `json:"name"`                   // name of the task
	Status   results.Status    `json:"status"`                 // passed, failed, error, or n/a until the task has ended
	PassRate *results.Interval `json:"pass_rate_ci,omitempty"` // share of trials that passed, with its 95% interval; omitted if no trial counts
	Trials   []TrialLine       `json:"trials"`                 // trials with verdicts, by number
}

// TrialLine is a trial in a list of trials.
type TrialLine struct {
	Number     int             `json:"number"`            // from 1
	Attempts   int             `json:"attempts"`          // number of attempts; the last one counts
	Outcome    evidence.Class  `json:"outcome"`           // pass, fail, timeout, agent_error, error, server_error or infra
	Reason     evidence.Reason `json:"reason,omitempty"`  // reason for the outcome, in a word; omitted if the trial passed
	Message    string          `json:"message,omitempty"` // reason for the outcome, in a sentence; omitted if there is none
	DurationMS int64           `json:"duration_ms"`       // time of the agent
	MCPCalls   int             `json:"mcp_calls"`         // number of captured MCP calls
}

func taskDetail(task results.Task) TaskDetail {
	t := TaskDetail{ID: task.TestID, Name: task.DisplayName, Status: task.Status, Trials: []TrialLine{}}
	if task.Stats != nil {
		t.PassRate = &task.Stats.PassRateCI
	}
	for _, r := range task.Runs {
		t.Trials = append(t.Trials, TrialLine{
			Number: r.RunNumber, Attempts: r.Attempts, Outcome: r.Outcome, Reason: r.Reason, Message: r.Message,
			DurationMS: r.DurationMS, MCPCalls: r.SessionDigest.MCPToolCalls,
		})
	}
	return t
}

// Limits on the details of a trial.
const (
	maxCalls = 10_000
	maxValue = 64 << 10 // bytes of arguments, a result or an error
	maxFiles = 1000
)

// TrialDetail is the response of /api/v1/runs/ID/trials/TASK/N.
type TrialDetail struct {
	Run         string          `json:"run"`                  // id of the run
	Task        string          `json:"task"`                 // id of the task
	TaskName    string          `json:"task_name"`            // name of the task
	Number      int             `json:"number"`               // from 1
	Attempt     int             `json:"attempt"`              // from 1
	Agent       string          `json:"agent"`                // executor
	Prompt      string          `json:"prompt"`               // prompt of the agent
	Started     time.Time       `json:"started"`              // UTC
	Ended       time.Time       `json:"ended"`                // UTC
	Outcome     evidence.Class  `json:"outcome"`              // pass, fail, timeout, agent_error, error, server_error or infra
	Reason      evidence.Reason `json:"reason,omitempty"`     // reason for the outcome, in a word; omitted if the trial passed
	Message     string          `json:"message,omitempty"`    // reason for the outcome, in a sentence; omitted if there is none
	FinalOutput string          `json:"final_output"`         // final output of the agent
	Verdicts    []VerdictLine   `json:"verdicts"`             // verdicts of the graders
	Calls       []CallLine      `json:"calls"`                // MCP calls in order; at most 10000
	CallsLeft   string          `json:"calls_left,omitempty"` // why calls were left out; omitted if none were
	Gaps        []string        `json:"gaps,omitempty"`       // missing evidence, with the reason; omitted if there is none
	Files       []FileLine      `json:"files"`                // files of the trial
}

// VerdictLine is a grader's verdict.
type VerdictLine struct {
	Name     string                 `json:"name"`     // name of the grader
	Type     string                 `json:"type"`     // type of the grader
	Result   evidence.VerdictResult `json:"result"`   // pass, fail or error
	Score    float64                `json:"score"`    // from 0 to 1
	Weight   float64                `json:"weight"`   // weight among the trial's graders
	Feedback string                 `json:"feedback"` // explanation, in one or more sentences
}

// CallLine is an MCP call. Captured JSON is represented as a string.
type CallLine struct {
	Seq        int              `json:"seq"`                 // from 1
	Server     string           `json:"server"`              // name of the server
	Tool       string           `json:"tool"`                // name of the tool
	Outcome    evidence.Outcome `json:"outcome"`             // ok, tool_error, protocol_error, transport_error, timeout, cancelled or abandoned
	Origin     evidence.Origin  `json:"origin,omitempty"`    // whether a model requested the call; omitted if not known
	Start      time.Time        `json:"start"`               // UTC
	DurationMS int64            `json:"duration_ms"`         // until the response; 0 without one
	Arguments  *CapturedJSON    `json:"arguments,omitempty"` // omitted if there are none
	Result     *CapturedJSON    `json:"result,omitempty"`    // omitted if there is none
	Error      *CapturedJSON    `json:"error,omitempty"`     // omitted if there is none
}

// CapturedJSON is captured JSON text.
type CapturedJSON struct {
	Text  string `json:"text"`            // beginning of the text, up to 65536 bytes
	Bytes int    `json:"bytes,omitempty"` // size of the whole text; omitted if it is complete
}

// FileLine is a file of a trial.
type FileLine struct {
	Path  string `json:"path"`  // path below the run's directory; served at /runs/ID/files/PATH
	Bytes int64  `json:"bytes"` // size of the file
}

// apiTrial returns the details of a trial that has ended.
func (s *Server) apiTrial(r *http.Request) (any, error) {
	at, within, err := s.trialDir(r.PathValue("id"), r.PathValue("task"), r.PathValue("number"))
	if err != nil {
		return nil, err
	}
	t, err := at.Trial()
	v, err2 := at.Verdicts()
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	v = at.Explained(v)
	d := TrialDetail{
		Run: r.PathValue("id"), Task: t.Task, TaskName: t.TaskName, Number: t.Number, Attempt: t.Attempt, Agent: t.Executor, Prompt: t.Prompt,
		Started: t.Started, Ended: t.Ended, Outcome: v.Class, Reason: v.Reason, Message: v.Message, FinalOutput: t.FinalOutput,
		Verdicts: []VerdictLine{}, Calls: []CallLine{}, Gaps: t.Gaps, Files: filesOf(at, within),
	}
	for _, one := range v.Verdicts {
		d.Verdicts = append(d.Verdicts, VerdictLine{one.Name, one.Type, one.Result, one.Score, one.Weight, one.Feedback})
	}
	calls, err := at.Calls()
	switch {
	case err != nil:
		d.CallsLeft = problemWith(evidence.CallsFile, err)
	case len(calls) > maxCalls:
		d.CallsLeft = fmt.Sprintf("There are %d calls.", len(calls))
	}
	for _, c := range calls[:min(len(calls), maxCalls)] {
		line, err := callLine(c)
		if err != nil {
			return d, err
		}
		d.Calls = append(d.Calls, line)
	}
	return d, nil
}

func callLine(c evidence.Call) (CallLine, error) {
	result, err := c.Result.Raw()
	line := CallLine{
		Seq: c.Seq, Server: c.Server, Tool: c.Tool, Outcome: c.Outcome, Origin: c.Origin, Start: c.Start,
		Arguments: captured(c.Arguments), Result: captured(result), Error: captured(c.Error),
	}
	if !c.End.IsZero() {
		line.DurationMS = c.End.Sub(c.Start).Milliseconds()
	}
	return line, err
}

func captured(text json.RawMessage) *CapturedJSON {
	switch {
	case len(text) == 0:
		return nil
	case len(text) <= maxValue:
		return &CapturedJSON{Text: string(text)}
	}
	return &CapturedJSON{Text: strings.ToValidUTF8(string(text[:maxValue]), ""), Bytes: len(text)}
}

// filesOf lists the first files of a trial by their paths in the run's directory. within is
// the path of the trial.
func filesOf(at evidence.Dir, within string) []FileLine {
	all := []FileLine{}
	_ = filepath.WalkDir(string(at), func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), "."):
			return nil
		case len(all) == maxFiles:
			return fs.SkipAll
		}
		if info, err := entry.Info(); err == nil {
			all = append(all, FileLine{path.Join(within, filepath.ToSlash(strings.TrimPrefix(name, string(at)))), info.Size()})
		}
		return nil
	})
	return all
}

// events sends the progress of a run as server-sent events: "progress" with a
// [view.RunProgress] of the changes, and "end" with the run's [view.State] when nothing
// runs any more. A deleted run ends as unreadable.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	_, err := s.runs.find(id)
	if err != nil {
		return err
	}
	leave, err := s.watches.join()
	if err != nil {
		return err
	}
	defer leave()
	w.Header().Set("Content-Type", sse.ContentType)
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		s.watches.send(r.Context(), w, id)
	}
	return nil
}

// maxShown is the size up to which a browser shows a file; larger ones are downloaded.
const maxShown = 8 << 20

// file serves a file of a run. Browsers show it as text or download it, but never interpret
// it as HTML.
func (s *Server) file(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("path")
	file, err := s.runs.open(r.PathValue("id"), name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if !defence.FilesAsText {
		h.Set("Content-Type", "text/html; charset=utf-8")
	}
	if info.Size() > maxShown || strings.HasSuffix(name, ".tar") {
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	}
	http.ServeContent(w, r, "", time.Time{}, file)
	return nil
}
