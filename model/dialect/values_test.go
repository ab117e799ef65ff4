package dialect

import (
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/heavytest"
)

// zeros is a JSON text of begin, n zeros and end.
func zeros(begin string, n int, end string) []byte {
	return []byte(begin + strings.Repeat("0,", n-1) + "0" + end)
}

func TestHasTooMany(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{strings.Repeat(",", maxValues), false},
		{strings.Repeat(",", maxValues+1), true},
		{strings.Repeat("[", maxValues+1), true},
		{strings.Repeat(`{"":`, maxValues+1), true},
		{`"` + strings.Repeat(`,[{\"`, maxValues) + `"`, false},
		{`"\\"` + strings.Repeat(",", maxValues+1), true},
		{`"\"` + strings.Repeat(",", maxValues+1), false},
		{`"\`, false},
	} {
		if got := HasTooMany([]byte(c.text)); got != c.want {
			t.Errorf("%.20q: %v", c.text, got)
		}
	}
}

// TestManyValuesAreNotDecoded sends what would take fifty times its size in memory.
func TestManyValuesAreNotDecoded(t *testing.T) {
	heavytest.Mark(t)
	const many, bound = 4 << 20, 1 << 20
	allocated := func() uint64 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.TotalAlloc
	}
	for name, member := range map[Name]string{Chat: "messages", Messages: "messages", Responses: "input", Generate: "contents"} {
		body := zeros(`{"`+member+`":[`, many, "]}")
		before := allocated()
		_, err := ReadRequest(name, "m:generateContent", body)
		if took := allocated() - before; !errors.Is(err, ErrTooLarge) || took > bound {
			t.Errorf("%s: a request takes %d bytes, %v", name, took, err)
		}
	}
	for name, member := range map[Name]string{Chat: "choices", Messages: "content", Responses: "output", Generate: "candidates"} {
		event := append(zeros(`data: {"`+member+`":[`, many, "]}"), "\n\n"...)
		w := NewWatch(name, "text/event-stream")
		_, _ = w.Write(event[:len(event)-1]) // the event is whole, but not at its end
		before := allocated()
		_, _ = w.Write(event[len(event)-1:])
		if took := allocated() - before; took > bound || w.Said() {
			t.Errorf("%s: to watch takes %d bytes", name, took)
		}
		after := `data: {"id":"after"}` + "\n\n"
		got, err := ReadResponse(name, http.StatusOK, "text/event-stream", append(event, after...))
		if !errors.Is(err, ErrTooLarge) || name == Chat && got.ID != "after" {
			t.Errorf("%s: a response is %q, %v", name, got.ID, err)
		}
	}
}
