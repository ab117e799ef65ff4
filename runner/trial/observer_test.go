package trial

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
)

func TestCallWatch(t *testing.T) {
	t.Parallel()
	var last Calling
	w := &callWatch{report: func(c Calling) { last = c }}
	first := w.called("a", "one")
	second := w.called("b", "two")
	if want := (Calling{"b", "two", 2, 2}); last != want {
		t.Errorf("%+v", last)
	}
	second()
	if want := (Calling{"a", "one", 1, 2}); last != want {
		t.Errorf("%+v", last)
	}
	first()
	if want := (Calling{"a", "one", 0, 2}); last != want {
		t.Errorf("%+v", last)
	}
	for range 100 {
		w.called("c", strings.Repeat("n", 2*maxToolName))
	}
	if last.Open != 100 || last.Calls != 102 || len(last.Tool) > maxToolName+len("…") {
		t.Errorf("%+v", last)
	}
}

// What is asked of models beyond the share leaves its head alone.
func TestModelCallBeyondTheShare(t *testing.T) {
	dir := evidence.Dir(filepath.Join(t.TempDir(), "1"))
	rec, err := evidence.Create(string(dir), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := observer{Recorder: rec, shares: Shares{Agent: bounded.NewBudget(4 << 10)}}
	body, _ := json.Marshal(strings.Repeat("x", 2<<10))
	for range 3 {
		o.ModelCall(evidence.ModelCall{Request: body, Response: []byte("{}")})
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	var kept []int
	for call, err := range dir.ModelCalls() {
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, len(call.Request))
	}
	if fmt.Sprint(kept) != fmt.Sprint([]int{len(body), 0, 0}) || !o.shares.Agent.Over() {
		t.Errorf("kept %d", kept)
	}
}
