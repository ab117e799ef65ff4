package report

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/runner/evidence"
)

// frameSize is how much of a frame is shown: its texts are in the row already.
const frameSize = 4 << 10

// frames adds to calls the frames that they were made of, and marks those that injections
// and canaries are in.
func (r *reading) frames(items []item) {
	rows := map[int64]*item{}
	texts := map[*item][]string{}
	for i := range items {
		if call := items[i].step.Call; call != nil {
			rows[call.RequestFrame] = &items[i]
			if call.ResponseFrame > 0 {
				rows[call.ResponseFrame] = &items[i]
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	left := r.room.total
	for frame, err := range r.dir.Frames() {
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				r.gaps = append(r.gaps, err.Error())
			}
			break
		}
		it := rows[frame.Seq]
		if it == nil {
			continue
		}
		for _, n := range frame.Injected {
			it.row.flag("fail", fmt.Sprintf("injection %d", n))
			it.row.note(fmt.Sprintf("The attack's injection %d is in what the agent got.", n))
		}
		text := written(frame)
		if left -= len(text); left > 0 {
			texts[it] = append(texts[it], text)
		}
	}
	for i := range items {
		if some := texts[&items[i]]; len(some) > 0 {
			where := evidence.FramesFile
			items[i].row.folded("Frames", where, r.room.show(strings.Join(some, "\n\n")))
		}
	}
	r.canaries(items, rows)
}

// written is a frame as it crossed, or its beginning.
func written(f evidence.Frame) string {
	to := "to the server"
	if f.Dir == evidence.ToClient {
		to = "to the agent"
	}
	head := fmt.Sprintf("frame %d, %s, %s", f.Seq, to, byteCount(int64(len(f.Raw))+f.Truncated))
	if f.Synthetic != "" {
		head += ", written by the runner: " + string(f.Synthetic)
	}
	raw := f.Raw
	if len(raw) > frameSize {
		raw = raw[:frameSize]
		head += fmt.Sprintf(", of which the first %s are here", byteCount(frameSize))
	}
	return head + "\n" + string(raw)
}

// canaries marks the calls that events tell canaries were seen in.
func (r *reading) canaries(items []item, rows map[int64]*item) {
	for _, e := range r.events {
		frame, ok := e.Data["frame"].(float64)
		if e.Kind != evidence.EventCanary || !ok {
			continue
		}
		it := rows[int64(frame)]
		if it == nil || slices.ContainsFunc(it.row.Flags, func(f Flag) bool { return f.Text == "canary" }) {
			continue
		}
		it.row.flag("fail", "canary")
		it.row.note(e.Message)
	}
}
