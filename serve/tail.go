package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"path"
	"path/filepath"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
)

// maxTail is how many bytes of a trial's frames are looked at for what it calls now.
const maxTail = 64 << 10

// framesPath is where a trial's frames are in its run's directory.
func framesPath(id plan.TrialID) string { return path.Join(trialPath(id), evidence.FramesFile) }

// trialPath is where a trial is in its run's directory.
func trialPath(id plan.TrialID) string {
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
		if json.Unmarshal(line, &frame) != nil {
			continue
		}
		m, err := jsonrpc.ReadOne(frame.Raw)
		if err != nil || m.ID.Key == "" {
			continue
		}
		of := request{frame.Conn, m.ID.Key}
		switch {
		case frame.Dir == evidence.ToServer && m.Method == "tools/call":
			tool := jsontext.Word(jsontext.Member(m.Params, "name"))
			open[of] = &CallProgress{Server: text.Shorten(frame.Server, maxToldName), Tool: text.Shorten(tool, maxToldName), Since: frame.Time}
		case frame.Dir == evidence.ToClient && m.Method == "":
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
