package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"path"
	"path/filepath"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/visible"
	"github.com/waza-isolate/waza/runner"
)

// maxTail is how many bytes of a trial's frames are looked at for what it calls now.
const maxTail = 64 << 10

// framesPath is where a trial's frames are in its run's directory.
func framesPath(id runner.TrialID) string { return path.Join(trialPath(id), evidence.FramesFile) }

// trialPath is where a trial is in its run's directory.
func trialPath(id runner.TrialID) string {
	return filepath.ToSlash(string(runner.TrialDir("", id.Task, id.Number)))
}

// openCall is the newest call of the last frames of a file that has no answer there; nil
// without any. A line that is torn, or begins before them, tells of nothing.
func openCall(frames io.ReaderAt, size int64) *CallProgress {
	from := max(0, size-maxTail)
	tail, err := io.ReadAll(io.NewSectionReader(frames, from, size-from))
	if err != nil {
		return nil
	}
	if from > 0 {
		_, tail, _ = bytes.Cut(tail, []byte("\n"))
	}
	return newestOpen(tail)
}

// request tells a request of a conversation from the others of a trial.
type request struct{ conn, id string }

func newestOpen(lines []byte) (newest *CallProgress) {
	open := map[request]*CallProgress{}
	for line := range bytes.SplitSeq(lines, []byte("\n")) {
		var frame evidence.Frame
		var message struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if json.Unmarshal(line, &frame) != nil || json.Unmarshal(frame.Raw, &message) != nil || len(message.ID) == 0 {
			continue
		}
		of := request{frame.Conn, string(message.ID)}
		switch {
		case frame.Dir == evidence.ToServer && message.Method == "tools/call":
			open[of] = &CallProgress{Server: visible.Shorten(frame.Server, maxToldName), Tool: visible.Shorten(message.Params.Name, maxToldName), Since: frame.Time}
		case frame.Dir == evidence.ToClient && message.Method == "":
			delete(open, of)
		}
	}
	for _, call := range open {
		if newest == nil || call.Since.After(newest.Since) {
			newest = call
		}
	}
	return newest
}
