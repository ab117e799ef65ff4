package runner

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/report/inspection"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
)

// Inspect looks at the one server of a plan of [plan.PlanInspections] as [lookAtServer] does, and
// adds what its evidence tells.
func Inspect(ctx context.Context, backend trial.Backend, t *plan.Trial, dir evidence.Dir, o trial.InspectOptions) (inspection.Server, error) {
	found, err := trial.Inspect(ctx, backend, t, dir, o)
	if err == nil {
		err = gather(&found, dir)
	}
	return found, err
}

// gather adds what the evidence of a server that was looked at tells of it.
func gather(f *inspection.Server, dir evidence.Dir) error {
	if _, err := grading.Grade(dir); err != nil { // it derives what servers listed
		return err
	}
	trial, err := dir.Trial()
	if err != nil {
		return err
	}
	all, err := readRecorded(dir, results.Trial{Trial: trial})
	if err != nil {
		return err
	}
	f.Guarantees = trial.Guarantees
	for _, report := range all.Reports() {
		f.Did, f.Ends = report.Conduct, report.Ends
		if report.Catalog != nil {
			f.Tokens = report.Catalog.Tokens
		}
	}
	if used, there := trial.Resources[f.Name]; there && !f.Remote {
		f.Used = &used
	}
	if f.Stderr, err = tail(filepath.Join(string(dir), evidence.ServersDir, f.Name+".stderr")); err != nil {
		return err
	}
	if f.Noise, err = noise(dir); err != nil {
		return err
	}
	f.Asked, err = asked(dir)
	return err
}

// maxTail is how much of the end of a server's stderr is told.
const maxTail = 4 << 10

// tail is the end of a file, from a line's begin where there is one.
func tail(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	from := max(0, info.Size()-maxTail)
	end, err := io.ReadAll(io.NewSectionReader(file, from, maxTail))
	if at := bytes.IndexByte(end, '\n'); from > 0 && at >= 0 {
		end = end[at+1:]
	}
	return string(end), err
}

func noise(dir evidence.Dir) (int, error) {
	events, err := dir.Events()
	noisy := slices.DeleteFunc(events, func(e evidence.Event) bool { return e.Kind != "stdout_noise" })
	return len(noisy), err
}

// maxAsked is how many methods are told that a server asked for.
const maxAsked = 32

// asked counts by method what a server asked of its client.
func asked(dir evidence.Dir) (map[string]int, error) {
	count := map[string]int{}
	for f, err := range dir.Frames() {
		if err != nil {
			return nil, fmt.Errorf("inspection: %w", err)
		}
		m, err := jsonrpc.ReadOne(f.Raw)
		if err != nil || f.Dir != evidence.ToClient || !m.IsRequest() || len(count) == maxAsked && count[m.Method] == 0 {
			continue
		}
		count[m.Method]++
	}
	return count, nil
}
