package report

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/heavytest"
)

// Memory for frames is limited, whatever their number and size.
func TestFramesAreBounded(t *testing.T) {
	heavytest.Mark(t)
	const room = 64 << 10
	f := frames{left: room, texts: map[int][]string{}}
	for seq := range 1000 {
		f.add(&evidence.Call{Seq: seq}, evidence.Frame{Raw: []byte(strings.Repeat("x", 1<<20))})
	}
	held := 0
	for _, texts := range f.texts {
		held += len(strings.Join(texts, ""))
	}
	if held > room || held < room/2 {
		t.Errorf("%d bytes are held, of %d that there is room for", held, room)
	}
}
