package proxy

import (
	"testing"

	"github.com/waza-isolate/waza/internal/bounded"
)

func TestReplayBuffer(t *testing.T) {
	memory := bounded.NewBudget(10)
	j := &replayBuffer{max: 3, memory: memory}
	f := &agentStream{replay: j, stream: 4}
	for range 5 {
		f.sending(item{raw: []byte("ab")})
	}
	if len(j.events) != 3 || memory.Used() != 6 {
		t.Fatalf("%d events, %d bytes taken", len(j.events), memory.Used())
	}
	tests := []struct {
		after  uint64
		live   bool
		missed int
		known  bool
	}{
		{5, true, 0, true}, {4, true, 1, true}, {2, true, 3, true}, {1, true, 0, false}, {6, true, 0, false},
		{5, false, 0, true}, {2, false, 3, true}, {1, false, 0, false}, {6, false, 0, false},
	}
	for _, tt := range tests {
		var live *agentStream
		if tt.live {
			live = f
		}
		missed, known := j.since(eventID{4, tt.after}, live)
		if known != tt.known || known && len(missed) != tt.missed {
			t.Errorf("%+v: %d missed, known %v", tt, len(missed), known)
		}
	}
	f.sending(item{raw: make([]byte, 11)}) // too large: better nothing than a gap
	if _, known := j.since(eventID{4, 5}, f); known || memory.Used() != 0 {
		t.Errorf("known %v, %d bytes taken", known, memory.Used())
	}
	j.close()
	f.sending(item{raw: []byte("ab")})
	if len(j.events) != 0 || memory.Used() != 0 {
		t.Error("a closed buffer keeps")
	}
}

func FuzzEventID(f *testing.F) {
	f.Add("3-0")
	f.Add("-1-2")
	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := parseEventID(s); ok && id.String() != s {
			t.Fatalf("%q became %q", s, id)
		}
	})
}
