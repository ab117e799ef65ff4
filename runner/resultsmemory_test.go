package runner

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/memtest"
	"github.com/waza-isolate/waza/results"
)

// gradingRole is of a victim that grades a run directory and writes its results.
const (
	gradingRole = "grading"
	gradingDir  = "WAZA_TEST_RUN"
)

func gradeLarge(ready func(string), stop <-chan struct{}) {
	dir := os.Getenv(gradingDir)
	record := Record{Choices: Choices{Trials: 1}, Tasks: []TaskRecord{{ID: "large"}}}
	err := gradeTrials(dir)
	if err == nil {
		_, err = WriteResults(dir, record)
	}
	ready(fmt.Sprint(err))
	<-stop
}

// largeRun is a run directory with a trial of calls that were answered with so much text
// each.
func largeRun(t testing.TB, calls, size int) string {
	dir := t.TempDir()
	trial := TrialDir(dir, "large", 1)
	if err := os.MkdirAll(string(trial), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(string(trial), evidence.FramesFile))
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(file)
	lines, seq := json.NewEncoder(out), int64(0)
	frame := func(dir evidence.Direction, raw string) {
		seq++
		if err := lines.Encode(evidence.Frame{Seq: seq, Time: time.Unix(seq, 0).UTC(), Server: "it", Conn: "1", Dir: dir, Raw: []byte(raw)}); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Repeat(`a \"quoted\" line\n`, size/19)
	for id := range calls {
		frame(evidence.ToServer, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read","arguments":{"n":%d}}}`, id, id))
		frame(evidence.ToClient, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%d %s"}]}}`, id, id, text))
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	err = trial.WriteTrial(evidence.Trial{
		Task: "large", Number: 1, Executor: "command", Servers: []evidence.ServerRecord{{Name: "it"}},
		Graders: []evidence.GraderSpec{{Name: "fine", Type: "mcp_compliance", Weight: 1, Config: json.RawMessage(`{"server":"it","max_tool_errors":0,"errors":{"soft":"count"}}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Of what tools answered in a trial grading holds one answer at a time, and so do results,
// which take a bounded part of each. When calls held their answers, this took 1.6 times as
// much memory as all of them.
func TestMemoryOfResults(t *testing.T) {
	heavytest.Mark(t)
	const calls, size, most = 250, 1 << 20, 64 << 20
	dir := largeRun(t, calls, size)
	victim := memtest.Start(t, gradingRole, gradingDir+"="+dir)
	if victim.Address != "<nil>" {
		t.Fatal(victim.Address)
	}
	use := victim.Use()
	written, err := os.ReadFile(filepath.Join(dir, ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB of answers: %d MiB at the most, results of %d KiB", calls*size>>20, use.Peak>>20, len(written)>>10)
	if use.Peak > most {
		t.Errorf("grading took %d MiB, more than %d", use.Peak>>20, most>>20)
	}
	if most := calls * 200 << 10; len(written) > most {
		t.Errorf("results of %d KiB, more than %d", len(written)>>10, most>>10)
	}
	var r results.Results
	if err := json.Unmarshal(written, &r); err != nil {
		t.Fatal(err)
	}
	run := r.Tasks[0].Runs[0]
	const want = "bytes left out; whole in trials/large/1/calls.jsonl, line 250, and frame 500"
	if last := run.ToolEvents[calls-1]; run.Outcome != evidence.ClassPass || !strings.Contains(string(last.Result), want) {
		t.Errorf("%s: %.300s", run.Outcome, last.Result)
	}
	whole, err := TrialDir(dir, "large", 1).Calls()
	if err != nil || len(whole) != calls {
		t.Fatalf("evidence is not whole: %d calls, %v", len(whole), err)
	}
	if last, err := whole[calls-1].Result.Raw(); err != nil || len(last) < size {
		t.Errorf("evidence is not whole: %d bytes, %v", len(last), err)
	}
}
