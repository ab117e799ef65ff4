package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Merged shards are the run that one process would have made, and what is not all of one run's is
// refused.
func TestShards(t *testing.T) {
	t.Parallel()
	whole, p := newLocalProject(t, localKilledRun), newLocalProject(t, localKilledRun)
	undisturbed := whole.startLocal()
	shards := []*command{
		p.start("run", "eval.yaml", "--shard", "1/2", "--run-dir", "shards/1"),
		p.start("run", "eval.yaml", "--shard", "2/2", "--run-dir", "shards/2", "--workers", "1"),
	}
	for _, c := range append(shards, undisturbed) {
		c.wait(exitOK)
	}
	p.start("merge", "shards/2", "shards/1", "--run-dir", "run").wait(exitOK)
	if diff := cmp.Diff(tell(t, whole), tell(t, p)); diff != "" {
		t.Errorf("the merged run is another (-whole +merged):\n%s", diff)
	}
	if a, b := whole.record(), p.record(); !cmp.Equal(a.Inputs, b.Inputs) || !cmp.Equal(a.Tasks, b.Tasks) || !cmp.Equal(a.Guarantees, b.Guarantees) || b.Shard != nil {
		t.Errorf("records %+v and %+v", a, b)
	}
	for _, file := range []string{"report.html", "junit.xml", "progress.jsonl"} {
		if p.read("run", file) == "" {
			t.Errorf("the merged run has no %s", file)
		}
	}
	if c := p.start("run", "--resume", "run").wait(exitOK); !strings.Contains(c.stderr.String(), "no trial is left") {
		t.Errorf("resumed: %s", c.stderr.String())
	}

	p.start("run", "eval.yaml", "--shard", "2/2", "--run-dir", "shards/longer", "--task", "quick", "--task", "slow", "--trials", "1").wait(exitOK)
	if err := os.CopyFS(p.path("shards", "changed"), os.DirFS(p.path("shards", "2"))); err != nil {
		t.Fatal(err)
	}
	p.write("shards/changed/trials/slow/1/events.jsonl", "{}\n")
	if err := os.CopyFS(p.path("shards", "begun"), os.DirFS(p.path("shards", "2"))); err != nil {
		t.Fatal(err)
	}
	var begun map[string]json.RawMessage
	if err := json.Unmarshal([]byte(p.read("shards", "begun", "run.json")), &begun); err != nil {
		t.Fatal(err)
	}
	delete(begun, "files")
	record, _ := json.Marshal(begun)
	p.write("shards/begun/run.json", string(record))
	for args, says := range map[string]string{
		"merge":                                 "takes the run directories of all shards",
		"merge shards/1":                        "shard 2 of 2 is missing",
		"merge shards/1 shards/1":               "are both shard 1 of 2",
		"merge shards/1 run":                    "run is not a shard",
		"merge shards/1 nothing":                "nothing is not a run directory",
		"merge shards/1 shards/longer":          `"trials_per_task" differs`,
		"merge shards/1 shards/changed":         "events.jsonl was changed after the run",
		"merge shards/1 shards/begun":           "shards/begun has not ended",
		"merge shards/1 shards/2 --run-dir run": "run directory run is not empty",
		"run eval.yaml --shard 3/2":             "must be I/N",
		"run eval.yaml --shard 3/3":             "--shard 3/3 has no task",
		"run --resume shards/1 --shard 1/2":     "--shard cannot be given with --resume",
	} {
		c := p.start(strings.Fields(args)...).wait(exitUsage)
		if said := c.stderr.String(); !strings.Contains(said, says) || strings.Count(said, "\n") != 1 {
			t.Errorf("waza %s says %q, and not %q in one line", args, said, says)
		}
	}
}
