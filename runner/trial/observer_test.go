package trial

import (
	"strings"
	"testing"
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
