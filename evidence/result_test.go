package evidence

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A large result stays in its file, is the same whenever it is read, and is an error where
// the file has become another.
func TestLargeResult(t *testing.T) {
	for _, size := range []int{1, maxHeld, maxHeld + 1, 1 << 20} {
		raw := `{"content":[{"type":"text","text":"` + strings.Repeat("\\\"é\\n", size/6) + `"}]}`
		rec, dir := newRecorder(t, nil)
		rec.Frame(Frame{Server: "s", Dir: ToClient, Raw: []byte("{}")})
		rec.Frame(Frame{Server: "s", Dir: ToClient, Raw: []byte(`{"id":1,"result": ` + raw + ` }`)})
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		var call Call
		for frame, err := range dir.Frames() {
			if err != nil {
				t.Fatal(err)
			}
			if frame.Seq == 2 {
				call = Call{Seq: 1, ID: json.RawMessage("1"), Result: frame.Result(bytes.Clone([]byte(raw)))}
			}
		}
		if large := len(raw) > maxHeld; (call.Result.at != nil) != large {
			t.Errorf("%d bytes: in the file %v", len(raw), call.Result.at)
		}
		if err := dir.WriteCalls([]Call{{Seq: 0, ID: json.RawMessage("0")}, call}); err != nil {
			t.Fatal(err)
		}
		calls, err := dir.Calls()
		if err != nil || len(calls) != 2 || !calls[0].Result.IsZero() || calls[1].Result.IsZero() {
			t.Fatalf("%+v, %v", calls, err)
		}
		for file, result := range map[string]Result{FramesOf("s"): call.Result, CallsFile: calls[1].Result} {
			if got, err := result.Raw(); err != nil || string(got) != raw {
				t.Errorf("%s: %.40s, %v", file, got, err)
			}
			if err := os.Truncate(filepath.Join(string(dir), file), 10); err != nil {
				t.Fatal(err)
			}
			if got, err := result.Raw(); (err != nil) != (len(raw) > maxHeld) {
				t.Errorf("%s is cut off: %.40s, %v", file, got, err)
			}
		}
	}
}
