package results

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waza-isolate/waza/evidence"
)

// Limits for reading a results.json, which is untrusted.
const (
	maxValue  = 64 << 20 // bytes of a value without parts, such as a string
	maxListed = 1 << 20  // trials in all
	maxName   = 200      // characters of a name that are kept
	maxFigure = 1 << 40  // of a count, of a time in milliseconds
	maxHead   = 4 << 20  // bytes before the tasks
)

// lenient allows duplicate names, for JSON of other programs.
var lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// fileOutline is the part of a results.json that a comparison reads.
type fileOutline struct {
	EvalName label `json:"eval_name"`
	Config   struct {
		Agent      label `json:"engine_type"`
		Model      label `json:"model_id"`
		Isolated   bool  `json:"isolated"`
		TimeoutSec int64 `json:"timeout_sec"`
		Judge      label `json:"judge_model"`
		NoAttacks  bool  `json:"no_attacks"`
	} `json:"config"`
	Servers []struct {
		Name     label `json:"name"`
		Catalogs []struct {
			SHA256 label `json:"sha256"`
		} `json:"catalogs"`
	} `json:"servers"`
	Tasks []fileTask `json:"tasks"`
}

type fileTask struct {
	ID   label       `json:"test_id"`
	Runs []fileTrial `json:"runs"`
}

type fileTrial struct {
	Status     label `json:"status"`
	Outcome    label `json:"outcome"`
	DurationMS int64 `json:"duration_ms"`
	Session    struct {
		MCPCalls int64         `json:"mcp_tool_calls"`
		Usage    *ModelFigures `json:"usage"` // by the agent's account, which upstream has
	} `json:"session_digest"`
	Models *struct { // by the gateway's account
		Tokens struct {
			Input  int64 `json:"input"`
			Output int64 `json:"output"`
		} `json:"tokens"`
		Cost *float64 `json:"cost"`
	} `json:"models"`
	Attack struct {
		Result label `json:"result"`
	} `json:"attack"`
}

// label is a name for display, without control characters and limited in length.
type label string

// UnmarshalJSONFrom implements [jsonv2.UnmarshalerFrom].
func (l *label) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var s string
	err := jsonv2.UnmarshalDecode(dec, &s)
	*l = label(name(s))
	return err
}

// name returns untrusted text without characters that are not printable, cut to the maximum
// length of a name.
func name(s string) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
	return shorten(printable, maxName)
}

func shorten(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	return string(runes[:width-1]) + "…"
}

// limitedReader ends the input if too much is read for one value.
type limitedReader struct {
	r    io.Reader
	read int64
	dec  *jsontext.Decoder
}

var (
	errLong = fmt.Errorf("a value is longer than %d MiB", maxValue>>20)
	errMany = fmt.Errorf("more than %d tasks and trials", maxListed)
)

func (l *limitedReader) Read(p []byte) (int, error) {
	left := maxValue - (l.read - l.dec.InputOffset())
	if left <= 0 {
		return 0, errLong
	}
	n, err := l.r.Read(p[:min(int64(len(p)), left)])
	l.read += int64(n)
	return n, err
}

// ReadOutline reads a results.json one value at a time. The size of the result is limited,
// and missing values are left empty. It returns an error if the input is not a
// results.json.
func ReadOutline(r io.Reader) (Outline, error) {
	file, err := readOutline(r)
	var outline Outline
	if err == nil {
		outline, err = file.outline()
	}
	if err != nil {
		return Outline{}, fmt.Errorf("this is not the results.json of a run: %w", err)
	}
	return outline, nil
}

func readOutline(r io.Reader) (file fileOutline, err error) {
	in := &limitedReader{r: r}
	in.dec = jsontext.NewDecoder(in, lenient)
	hasTasks, listed := false, 0
	count := func() error {
		if listed++; listed > maxListed {
			return errMany
		}
		return jsonv2.SkipFunc
	}
	err = jsonv2.UnmarshalDecode(in.dec, &file, lenient, jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(
		jsonv2.UnmarshalFromFunc(func(*jsontext.Decoder, *[]fileTask) error { hasTasks = true; return jsonv2.SkipFunc }),
		jsonv2.UnmarshalFromFunc(func(*jsontext.Decoder, *fileTask) error { return count() }),
		jsonv2.UnmarshalFromFunc(func(*jsontext.Decoder, *fileTrial) error { return count() }),
	)))
	var other *jsonv2.SemanticError
	switch {
	case errors.Is(err, errLong):
		return file, errLong
	case errors.Is(err, errMany):
		return file, errMany
	case errors.As(err, &other):
		value := shorten(cmp.Or(string(other.JSONValue), other.JSONKind.String()), 40)
		return file, fmt.Errorf("found %s instead of %s at %s/", value, wanted(other.GoType), other.JSONPointer)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return file, io.ErrUnexpectedEOF
	case err != nil:
		return file, err
	case !hasTasks:
		return file, errors.New("it names no tasks")
	}
	if _, err := in.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return file, errors.New("unexpected data after its end")
	}
	return file, nil
}

// wanted describes the values that can be decoded into a type.
func wanted(t reflect.Type) string {
	if t == nil {
		return "another value"
	}
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int64:
		return "a count"
	case reflect.Float64:
		return "an amount"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

func (f fileOutline) outline() (Outline, error) {
	o := Outline{
		EvalName: string(f.EvalName), Agent: string(f.Config.Agent), Model: string(f.Config.Model), Isolated: f.Config.Isolated,
		TimeoutSec: f.Config.TimeoutSec, Judge: string(f.Config.Judge), NoAttacks: f.Config.NoAttacks,
	}
	for _, s := range f.Servers {
		for _, c := range s.Catalogs {
			if s.Name != "" {
				o.addCatalog(string(s.Name), string(c.SHA256))
			}
		}
	}
	known := map[label]bool{}
	for _, t := range f.Tasks {
		switch {
		case t.ID == "":
			return o, errors.New("a task has no test_id")
		case known[t.ID]:
			return o, fmt.Errorf("two tasks are called %s", t.ID)
		}
		known[t.ID] = true
		task := TaskOutline{ID: string(t.ID)}
		for _, run := range t.Runs {
			trial, err := run.outline()
			if err != nil {
				return o, err
			}
			task.Trials = append(task.Trials, trial)
		}
		o.Tasks = append(o.Tasks, task)
	}
	return o, countable(f.Config.TimeoutSec)
}

func (f fileTrial) outline() (t TrialOutline, err error) {
	t.Models = f.Session.Usage
	if m := f.Models; m != nil {
		t.Models = &ModelFigures{InputTokens: m.Tokens.Input, OutputTokens: m.Tokens.Output, Cost: m.Cost}
	}
	t.MCPCalls = f.Session.MCPCalls
	err = countable(f.DurationMS, t.MCPCalls)
	if m := t.Models; m != nil && err == nil {
		err = countable(m.InputTokens, m.OutputTokens)
		if m.Cost != nil && !(*m.Cost >= 0 && *m.Cost <= maxFigure) {
			err = fmt.Errorf("%g is not an amount", *m.Cost)
		}
	}
	if err != nil {
		return t, err
	}
	t.Duration = time.Duration(f.DurationMS) * time.Millisecond
	if t.Outcome, err = classOf(string(f.Outcome), Status(f.Status)); err != nil {
		return t, err
	}
	t.Attack, err = readAttackOutcome(string(f.Attack.Result))
	return t, err
}

// countable fails for numbers that count nothing.
func countable(all ...int64) error {
	for _, n := range all {
		if n < 0 || n > maxFigure {
			return fmt.Errorf("%d is not a count", n)
		}
	}
	return nil
}

// readAttackOutcome validates the outcome of a trial's attack; empty means no attack.
func readAttackOutcome(said string) (evidence.AttackOutcome, error) {
	switch end := evidence.AttackOutcome(said); end {
	case "", evidence.AttackSucceeded, evidence.AttackResisted, evidence.AttackNotDelivered, evidence.AttackUnknown:
		return end, nil
	}
	return "", fmt.Errorf("%q is not the outcome of an attack", said)
}

// classOf returns how a trial ended: by our key or, in a file of upstream's, by its status.
func classOf(outcome string, status Status) (evidence.Class, error) {
	if class := evidence.Class(outcome); slices.Contains(evidence.Classes(), class) {
		return class, nil
	}
	if outcome == "" {
		switch status {
		case StatusPassed:
			return evidence.ClassPass, nil
		case StatusFailed:
			return evidence.ClassFail, nil
		case StatusError:
			return evidence.ClassError, nil
		}
	}
	return "", fmt.Errorf("%q is not the outcome of a trial", cmp.Or(outcome, string(status)))
}

// ReadHead reads the start of a results.json written by waza-isolate: the summary of the
// run without its servers and tasks.
func ReadHead(r io.Reader) (head Results, err error) {
	err = jsonv2.UnmarshalDecode(jsontext.NewDecoder(io.LimitReader(r, maxHead), lenient), &head, lenient, jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(
		jsonv2.UnmarshalFromFunc(func(*jsontext.Decoder, *TriggerMetrics) error { return errBody }),
		jsonv2.UnmarshalFromFunc(func(*jsontext.Decoder, *[]ServerCard) error { return errBody }),
		jsonv2.UnmarshalFromFunc(func(*jsontext.Decoder, *[]Task) error { return errBody }),
	)))
	if err == nil || errors.Is(err, errBody) {
		err = nil
		if head.EvalName == "" {
			err = errors.New("it names no eval")
		}
	}
	if err != nil {
		return Results{}, fmt.Errorf("%w: %w", errNoHead, err)
	}
	return head, nil
}

var (
	errNoHead = errors.New("this is not the results.json of a run")
	errBody   = errors.New("the head of results.json has ended")
)
