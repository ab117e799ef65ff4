package conversation

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/runner/evidence"
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
	c, err := Read(evidence.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range c.Events {
		said = append(said, e.Message)
	}
	if diff := cmp.Diff([]string{"one", "by itself"}, said); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[int][]int{1: {2, 1}}, c.Injected); diff != "" {
		t.Error(diff)
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
