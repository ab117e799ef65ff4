package grading_test

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/heavytest"
)

// manyCalls is a trial of n calls, half of them reads, all in the agent's transcript.
func manyCalls(n int) scene {
	frames := listing(readTool + "," + writeTool)
	var transcript strings.Builder
	for i := range n {
		tool := []string{"get_issue", "close_issue"}[i%2]
		arguments := fmt.Sprintf(`{"owner":"octo","repo":"hello-world","number":%d,"labels":["bug","ui"]}`, i)
		frames = append(frames, call("github", fmt.Sprint(i), tool, arguments, `"result":{"content":[{"type":"text","text":"It is open, and assigned to nobody."}]}`)...)
		fmt.Fprintf(&transcript, `{"type":"tool.execution_start","tool_name":"mcp__github__%s","tool_call_id":"%d","arguments":%s}`+"\n", tool, i, arguments)
	}
	s := trialOf(frames)
	s.trial.Executor, s.transcript = "script", transcript.String()
	return s
}

// thorough uses every part of the grader.
const thorough = `{
	"match": "effects",
	"expect_tools_used": [
		{"tool": "/close_.*/", "count": {"min": 100}, "args": {"values": {"owner": "octo", "number": {"range": [0, 100000]}}}},
		{"tool": "close_issue", "args": {"values": {"number": 9999, "labels": {"set": ["ui", "bug"]}}}}
	],
	"reject_tools": ["/delete_.*/"], "before": [["get_issue", "close_issue"]], "max_duplicate_calls": 0,
	"schema": {"min_valid": 1, "max_unknown_tools": 0}, "wire": {"unbacked_claims": "fail", "unreported_calls": "fail"},
	"max_tool_errors": 0, "errors": {"soft": "count", "recovery": {"window": 10}}
}`

// BenchmarkTenThousandCalls is the whole way from a trial's directory to its verdict.
func BenchmarkTenThousandCalls(b *testing.B) {
	for _, one := range []struct {
		name, config string
		reported     bool // the agent leaves a transcript
	}{
		{"brief", `{"expect_tools_used":["get_issue"],"max_tool_errors":0}`, false},
		{"in_order", `{"match":"in_order","expect_tools_used":["get_issue",{"tool":"close_issue","count":{"min":100}},"get_issue"]}`, false},
		{"told", `{"expect_tools_used":["get_issue"],"max_tool_errors":0}`, true},
		{"thorough", thorough, true},
	} {
		b.Run(one.name, func(b *testing.B) {
			s := manyCalls(10_000)
			s.trial.Graders = []evidence.GraderSpec{grader("mcp_compliance", one.config)}
			if !one.reported {
				s.trial.Executor, s.transcript = "command", ""
			}
			dir := lay(b, s)
			b.ReportAllocs()
			peak, began := watchHeap(), processorTime(b)
			for b.Loop() {
				if got, err := gradeIn(dir); err != nil || got.Class != evidence.ClassPass {
					b.Fatalf("%+v, %v", got, err)
				}
			}
			b.ReportMetric((processorTime(b)-began).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(peak())/(1<<20), "MiB-peak-heap")
		})
	}
}

// processorTime is what this process has used so far: on a machine with other work it
// says more than the time that passed.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// watchHeap samples the heap until the function that it returns is called, which
// returns the most that was seen.
func watchHeap() (stop func() uint64) {
	done, peak := make(chan struct{}), make(chan uint64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		most, tick := uint64(0), time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-tick.C:
			case <-done:
				peak <- most
				return
			}
		}
	}()
	return func() uint64 { close(done); return <-peak }
}

func TestTenThousandCalls(t *testing.T) {
	heavytest.Mark(t)
	s := manyCalls(10_000)
	s.trial.Graders = []evidence.GraderSpec{grader("mcp_compliance", thorough)}
	got, err := gradeIn(lay(t, s))
	if err != nil || got.Class != evidence.ClassPass {
		t.Fatalf("%+v, %v", got.Verdicts, err)
	}
}

// BenchmarkBigResults grades a trial with large results: 64 of 1 MiB each.
func BenchmarkBigResults(b *testing.B) {
	frames := listing(readTool + "," + writeTool)
	result := `"result":{"content":[{"type":"text","text":"` + strings.Repeat("lorem ipsum ", 1<<20/12) + `"}]}`
	for i := range 64 {
		frames = append(frames, call("github", fmt.Sprint(i), "get_issue", fmt.Sprintf(`{"number":%d}`, i), result)...)
	}
	s := trialOf(frames)
	s.trial.Executor = "command"
	s.trial.Graders = []evidence.GraderSpec{grader("mcp_compliance", `{"expect_tools_used":["get_issue"],"max_tool_errors":0}`)}
	dir := lay(b, s)
	s, frames = scene{}, nil
	runtime.GC()
	peak := watchHeap()
	for b.Loop() {
		if got, err := gradeIn(dir); err != nil || got.Class != evidence.ClassPass {
			b.Fatalf("%+v, %v", got, err)
		}
	}
	b.ReportMetric(float64(peak())/(1<<20), "MiB-peak-heap")
}
