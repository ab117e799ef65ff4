package export

import (
	"encoding/json"
	"testing"
)

const context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func frameWith(parent string) string {
	return `{"id":1,"params":{"_meta":{"traceparent":` + parent + `}}}`
}

func TestTraceparent(t *testing.T) {
	t.Parallel()
	for frame, want := range map[string]bool{
		frameWith(`"` + context + `"`):                                         true,
		frameWith(`"` + context + `-later"`):                                   false, // version 00 has four fields
		frameWith(`"01` + context[2:] + `-later"`):                             true,
		frameWith(`"ff` + context[2:] + `"`):                                   false,
		frameWith(`"00-00000000000000000000000000000000-00f067aa0ba902b7-01"`): false,
		frameWith(`"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"`): false,
		frameWith(`7`): false,
		`{"id":1,"params":{"_meta":{"Traceparent":"` + context + `"}}}`:            false,
		`[{"id":2},` + frameWith(`"`+context+`"`) + `]`:                            true,
		`[{"id":1},{"id":2,"params":{"_meta":{"traceparent":"` + context + `"}}}]`: false,
		`{"id":`: false,
	} {
		if _, ok := traceparent([]byte(frame), json.RawMessage("1")); ok != want {
			t.Errorf("%s: %v", frame, ok)
		}
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add([]byte(frameWith(`"` + context + `"`)))
	f.Add([]byte(`[` + frameWith(`"`+context+`"`) + `]`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if to, ok := traceparent(frame, json.RawMessage("1")); ok != (to != link{} && !to.trace.IsEmpty() && !to.span.IsEmpty()) {
			t.Errorf("%+v, %v", to, ok)
		}
	})
}
