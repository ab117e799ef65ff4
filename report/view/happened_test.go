package view

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

func TestHappened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/trial"
	rec, err := evidence.Create(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []evidence.Event{
		{Kind: "health", Where: "mail", Message: "asked"}, {Kind: "dns", Where: "agent", Message: "one"},
		{Kind: "server_exit", Where: "mail", Message: "told to", Data: map[string]any{"asked": true}},
		{Kind: "server_exit", Where: "mail", Message: "by itself", Data: map[string]any{"asked": false}},
	} {
		rec.Event(e)
	}
	rec.Frame(evidence.Frame{Server: "mail", Dir: evidence.ToServer, Raw: []byte("{}")})
	rec.Frame(evidence.Frame{Server: "mail", Dir: evidence.ToClient, Raw: []byte("{}"), Side: evidence.SideServer})
	rec.Frame(evidence.Frame{Server: "mail", Dir: evidence.ToClient, Raw: []byte("{}"), Side: evidence.SideAgent, Injected: []int{2, 1}})
	trial := evidence.Trial{Attack: &evidence.TaskAttack{Injections: make([]evidence.Injection, 2)}}
	for _, err := range []error{
		rec.Close(), evidence.Dir(dir).WriteTrial(trial),
		evidence.Dir(dir).WriteCalls([]evidence.Call{{Seq: 1, RequestFrame: 1, ResponseFrame: 3}, {Seq: 2, RequestFrame: 1}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := ReadConversation(evidence.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	reported := map[bool][]string{} // by whether they are usual
	for _, e := range c.Events {
		reported[Usual(e)] = append(reported[Usual(e)], e.Message)
	}
	if diff := cmp.Diff(map[bool][]string{true: {"asked", "told to"}, false: {"one", "by itself"}}, reported); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[int][]int{1: {2, 1}}, c.Injected); diff != "" {
		t.Error(diff)
	}
}

// TestTorn has each file that cannot be read to its end named once.
func TestTorn(t *testing.T) {
	t.Parallel()
	dir := evidence.Dir(t.TempDir())
	torn := []string{evidence.EventsFile, evidence.FramesFile, evidence.ModelsFile, evidence.TranscriptFile}
	for _, name := range torn {
		if err := os.WriteFile(filepath.Join(string(dir), name), []byte("{\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	trial := evidence.Trial{Attack: &evidence.TaskAttack{Injections: make([]evidence.Injection, 1)}}
	err := errors.Join(dir.WriteTrial(trial), dir.WriteCalls([]evidence.Call{{Seq: 1, RequestFrame: 1}}), dir.WriteNarration(evidence.Narration{}))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadConversation(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range torn {
		if n := strings.Count(strings.Join(c.Gaps, "\n"), name); n != 1 {
			t.Errorf("%s is named %d times: %q", name, n, c.Gaps)
		}
	}
}

func TestMentions(t *testing.T) {
	t.Parallel()
	var details map[string]any
	const said = `{"calls":9,"match":"exact","matched":[{"expected":7,"call":4,"satisfied":8}],"missing":[{"expected":1,"nearest":5}],
		"extras":[2],"errors":{"counted":[3],"expected":[],"recovered":[{"call":3,"by":6}]},"gates":{"reject":{"calls":[2,"x"],"result":"fail"}}}`
	if err := json.Unmarshal([]byte(said), &details); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{2, 3, 4, 5, 6}, Mentions(evidence.Verdict{Details: details})); diff != "" {
		t.Error(diff)
	}
}
