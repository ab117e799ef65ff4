package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
)

// frameSize is how much of a frame is shown: its texts are in the row already.
const frameSize = 4 << 10

// frames are those that calls were made of, as text, as far as there is room.
type frames struct {
	left  int              // bytes
	texts map[int][]string // by call
}

func (f *frames) add(call *evidence.Call, frame evidence.Frame) {
	if f.left <= 0 {
		return
	}
	text := written(frame)
	if f.left -= len(text); f.left > 0 {
		f.texts[call.Seq] = append(f.texts[call.Seq], text)
	}
}

// crossed adds to calls the frames that they were made of, and marks those that canaries
// are in.
func (r *reading) crossed(items []item) {
	rows := map[int]*Row{} // by call
	for i := range items {
		call := items[i].step.Call
		if call == nil {
			continue
		}
		rows[call.Seq] = &items[i].row
		if texts := r.frames.texts[call.Seq]; len(texts) > 0 {
			items[i].row.folded("Frames", evidence.FramesFile, r.room.show(strings.Join(texts, "\n\n")))
		}
	}
	r.canaries(rows)
}

// written is a frame as it crossed, or its beginning.
func written(f evidence.Frame) string {
	to := "to the server"
	if f.Dir == evidence.ToClient {
		to = "to the agent"
	}
	head := fmt.Sprintf("frame %d, %s, %s", f.Seq, to, view.Bytes(int64(len(f.Raw))+f.Truncated))
	if f.Synthetic != "" {
		head += ", written by the runner: " + string(f.Synthetic)
	}
	raw := f.Raw
	if len(raw) > frameSize {
		raw = raw[:frameSize]
		head += fmt.Sprintf(", of which the first %s are here", view.Bytes(frameSize))
	}
	return head + "\n" + string(raw)
}

// canaries marks the calls that events tell canaries were seen in.
func (r *reading) canaries(rows map[int]*Row) {
	calls := r.talk.CallsByFrame()
	for _, e := range r.talk.Events {
		frame, ok := e.Data["frame"].(float64)
		if e.Kind != evidence.EventCanary || !ok {
			continue
		}
		for _, call := range calls[int64(frame)] {
			row := rows[call.Seq]
			if row == nil || slices.ContainsFunc(row.Flags, func(f Flag) bool { return f.Text == "canary" }) {
				continue
			}
			row.flag("fail", "canary")
			row.note(e.Message)
		}
	}
}
