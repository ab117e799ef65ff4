package results

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// event returns an event as read back from its file.
func event(t *testing.T, kind, message string, data any) evidence.Event {
	t.Helper()
	e := evidence.Event{Kind: kind, Where: "web", Message: message}
	text, err := json.Marshal(data)
	if err == nil {
		err = json.Unmarshal(text, &e.Data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// strange is a trial whose server does everything that is reported.
func strange(t *testing.T, number int) Trial {
	cpu := 1.5 * float64(number)
	asked := map[string]any{"name": "Evil.example\x1b[2J", "type": "A", "answered": false, evidence.DataOmitted: 3}
	trial := Trial{
		Trial: evidence.Trial{
			Task: "a", Number: number, Servers: []evidence.ServerRecord{{Name: "web"}, {Name: "calm"}},
			Resources: map[string]evidence.Resource{"web": {Used: &evidence.Usage{CPU: &cpu}}},
		},
		Verdicts: evidence.Verdicts{Class: evidence.ClassPass},
		Events: []evidence.Event{
			event(t, "dns", "", asked), event(t, "dns", "", asked),
			event(t, "dns", "", map[string]any{"name": "localhost", "answered": true}),
			event(t, "egress", "", evidence.Egress{Name: "api.example.com", Port: 443, Allowed: true, Out: 10, In: 100}),
			event(t, "egress", "", evidence.Egress{Name: "evil.example", Port: 443, Why: "nobody allows it"}),
			event(t, "egress", "the runner connects to https://far.example", map[string]any{"origin": "https://far.example"}),
			event(t, "disk", "the container filled /tmp, which holds 64 bytes", nil),
		},
		Stderr: map[string]Written{"web": {Bytes: 20, Lines: 2}},
		Echoes: map[string][]evidence.Echo{"web": {{Secret: "web/TOKEN", Frames: 1}}},
		Observed: []evidence.Observed{{Container: "calm", Seen: observe.Seen{
			Programs:    []observe.Program{{Path: "/usr/local/bin/node", Count: 1}},
			Connections: []observe.Connection{{Network: "ip", Address: "127.0.0.1:53", Count: 2}, {Network: "unix", Address: "/run/a", Count: 1}},
		}}, {Container: "web", Seen: observe.Seen{
			Programs: []observe.Program{{Path: "/bin/sh", Args: []string{"sh", "-c", "true"}, Count: 2}},
			Connections: []observe.Connection{
				{Network: "ip", Address: "169.254.169.254:80", Count: 1}, {Network: "ip", Address: "192.0.2.1:80", Count: 5}, {Network: "unknown", Address: "hidden by its program", Count: 1},
			},
			More: map[string]int{"programs": 7}, Unseen: map[string]string{"files": "there are more than 20000 files"},
		}}},
	}
	for i := range maxConduct + 1 + number {
		trial.Observed[1].Files = append(trial.Observed[1].Files, observe.FileChange{Path: fmt.Sprintf("/tmp/%d", i), What: "created", Kind: "file", Size: int64(number)})
	}
	return trial
}

func TestConduct(t *testing.T) {
	got := strange(t, 1).Reports()[0].Activity
	if len(got.Files) != maxConduct || got.More["files"] != 2 {
		t.Errorf("%d files, more %v", len(got.Files), got.More)
	}
	got.Files = nil
	cpu := 1.5
	want := &Activity{
		Programs: []evidence.Program{{Path: "/bin/sh", Args: []string{"sh", "-c", "true"}, Count: 2}},
		Connections: []evidence.Connection{
			{Network: "ip", Address: "169.254.169.254:80", Count: 1}, {Network: "ip", Address: "192.0.2.1:80", Count: 5}, {Network: "unknown", Address: "hidden by its program", Count: 1},
		},
		Names:   []AskedName{{"Evil.example\x1b[2J", false, 2}, {"localhost", true, 1}},
		Egress:  []EgressHost{{Name: "api.example.com", Port: 443, Connections: 1, Out: 10, In: 100}, {Name: "evil.example", Port: 443, Connections: 1, Refused: 1}},
		Secrets: []evidence.Echo{{Secret: "web/TOKEN", Frames: 1}}, Limits: []string{"the container filled /tmp, which holds 64 bytes"},
		CPUSeconds: &cpu, StderrBytes: 20, StderrLines: 2,
		More:   map[string]int{"files": 2, "names": 6, "programs": 7},
		Unseen: map[string]string{"files": "there are more than 20000 files"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// strangeRun has two trials of the strange server.
func strangeRun(t *testing.T) Results {
	return gather(t, Run{Results: Results{Config: Config{Isolated: true}, Tasks: []Task{{TestID: "a"}}}}, strange(t, 1), strange(t, 2))
}

// A card has what its trials have, once.
func TestConductOfRun(t *testing.T) {
	r := strangeRun(t)
	c := r.Servers[0].Activity
	if len(c.Files) != maxConduct || c.Files[0].Size != 2 || c.More["files"] != 5 || c.More["programs"] != 14 {
		t.Errorf("%d files, %+v, more %v", len(c.Files), c.Files[0], c.More)
	}
	if c.Programs[0].Count != 4 || c.Connections[1].Count != 10 || c.Names[0].Count != 4 || c.Egress[0].In != 200 || c.Secrets[0].Frames != 2 || c.StderrLines != 4 || *c.CPUSeconds != 3 {
		t.Errorf("%+v", c)
	}
}
