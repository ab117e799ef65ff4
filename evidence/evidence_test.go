package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/evidence/secret"
)

// FuzzFrame checks that a frame comes back to the byte, and on one line.
func FuzzFrame(f *testing.F) {
	f.Add([]byte(`{"id":9007199254740993,"x":1.0}`))
	f.Add([]byte("\xff\xfe nbsp\u00a0 zwj\u200d fffd\ufffd <&> \u2028\n"))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		line, err := Frame{Seq: 1, Raw: raw}.MarshalJSON()
		if err != nil || bytes.ContainsRune(line, '\n') {
			t.Fatalf("%q, %v", line, err)
		}
		var back Frame
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back.Raw, raw) {
			t.Fatalf("%q came back as %q", raw, back.Raw)
		}
	})
}

func newRecorder(t *testing.T, secrets *secret.Set) (*Recorder, Dir) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "trial")
	r, err := Create(dir, secrets, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, Dir(dir)
}

func TestFramesAreNumberedWithoutGaps(t *testing.T) {
	r, dir := newRecorder(t, nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				r.Frame(Frame{Server: string(rune('a' + i%3)), Raw: []byte("{}")})
				r.Event(Event{Kind: "x"})
			}
		})
	}
	all.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	want := int64(1)
	for frame, err := range dir.Frames() {
		if err != nil || frame.Seq != want || frame.Time.Location() != time.UTC {
			t.Fatalf("frame %d: %+v, %v", want, frame, err)
		}
		want++
	}
	for _, from := range []int64{0, 1, 2, 200, 399, 400, 401} {
		first, seen := int64(0), int64(0)
		for frame, err := range dir.FramesFrom(from) {
			if err != nil {
				t.Fatal(err)
			}
			if seen++; seen == 1 {
				first = frame.Seq
			}
		}
		if from = max(from, 1); seen != 401-from || seen > 0 && first != from {
			t.Errorf("from %d there are %d frames, the first is %d", from, seen, first)
		}
	}
	if events, err := dir.Events(); want != 401 || err != nil || len(events) != 400 {
		t.Errorf("%d frames, %d events, %v", want-1, len(events), err)
	}
}

// A server that fills its file of frames leaves a gap of its own, and takes the room neither of other
// servers nor of the agent.
func TestFullFileOfFrames(t *testing.T) {
	r, dir := newRecorder(t, nil)
	r.half = 1 << 20
	for range 100 {
		r.Frame(Frame{Server: "noisy", Dir: ToClient, Raw: []byte(`"` + strings.Repeat(`\n`, 50_000) + `"`)})
	}
	if n := r.Frame(Frame{Server: "noisy", Dir: ToClient, Raw: make([]byte, 1<<20)}); n != 0 {
		t.Errorf("frame %d is kept", n)
	}
	asked, quiet := r.Frame(Frame{Server: "noisy", Dir: ToServer, Raw: []byte("{}")}), r.Frame(Frame{Server: "quiet", Dir: ToClient, Raw: []byte("{}")})
	if quiet != asked+1 || asked == 0 {
		t.Errorf("frames %d and %d", asked, quiet)
	}
	if lost := r.Lost(); len(lost) != 1 || lost[GapFramesOf("noisy")] == nil {
		t.Errorf("lost: %v", lost)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for f, err := range dir.Frames() {
		if last++; err != nil || f.Seq != last {
			t.Fatalf("frame %d after %d, %v", f.Seq, last-1, err)
		}
	}
	if last != quiet {
		t.Errorf("%d frames, want %d", last, quiet)
	}
	if info, err := os.Stat(filepath.Join(string(dir), FramesOf("noisy"))); err != nil || info.Size() > r.half {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}

func TestSecretsAreRedacted(t *testing.T) {
	secrets := &secret.Set{}
	secrets.Add("s3cret\"value")
	r, dir := newRecorder(t, secrets)
	r.Frame(Frame{Raw: []byte(`{"k":"s3cret\"value"}`)})
	r.Event(Event{Kind: "x", Message: `got s3cret"value`})
	log, err := r.ServerLog("s", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"a s3cr", `et"val`, "ue b"} {
		if _, err := log.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(log.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	err = filepath.Walk(string(dir), func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), "s3cret") || strings.Contains(string(content), "value") {
			t.Errorf("%s: %s", path, content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for frame := range dir.Frames() {
		if frame.Redacted != 1 {
			t.Errorf("frame counts %d redactions", frame.Redacted)
		}
	}
}

func TestCloseTellsOfAFailedWrite(t *testing.T) {
	r, _ := newRecorder(t, nil)
	r.Frame(Frame{})
	if err := r.files[FramesOf("")].Close(); err != nil {
		t.Fatal(err)
	}
	r.Frame(Frame{})
	if err := r.Close(); err == nil {
		t.Error("a lost frame is not told of")
	}
}

func TestEvidenceIsNotWrittenOver(t *testing.T) {
	r, dir := newRecorder(t, nil)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(string(dir), nil, nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
}

func TestATornLineIsAnError(t *testing.T) {
	r, dir := newRecorder(t, nil)
	r.Frame(Frame{Raw: []byte("{}")})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(string(dir), FramesOf(""))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(content, content[:10]...), 0o644); err != nil {
		t.Fatal(err)
	}
	var last error
	n := 0
	for _, err := range dir.Frames() {
		if last = err; err == nil {
			n++
		}
	}
	if n != 1 || last == nil || !strings.Contains(last.Error(), "line 2") {
		t.Errorf("%d frames, %v", n, last)
	}
}

// TestEveryCutIsSeen truncates a file at every position: complete lines are read, and the
// rest is an error.
func TestEveryCutIsSeen(t *testing.T) {
	r, dir := newRecorder(t, nil)
	for range 3 {
		r.Frame(Frame{Server: "s", Raw: []byte("{}")})
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(string(dir), FramesOf("s"))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := range len(content) {
		if err := os.WriteFile(path, content[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		whole := bytes.Count(content[:size], []byte("\n"))
		rest := len(bytes.TrimRight(content[bytes.LastIndexByte(content[:size], '\n')+1:size], "\n"))
		end := bytes.IndexByte(content[size:], '\n')
		if rest > 0 && end == 0 { // nothing but the newline is missing
			whole, rest = whole+1, 0
		}
		n := 0
		var last error
		for _, err := range dir.Frames() {
			if last = err; err == nil {
				n++
			}
		}
		if n != whole || (last != nil) != (rest > 0) {
			t.Errorf("cut at %d: %d frames, want %d, %v", size, n, whole, last)
		}
	}
}

func TestUnreadableLinesAreAnError(t *testing.T) {
	dir := Dir(t.TempDir())
	if err := os.Mkdir(filepath.Join(string(dir), FramesFile), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, err := range dir.Frames() {
		if !errors.Is(err, syscall.EISDIR) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := dir.Calls(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if events, err := dir.Transcript(); events != nil || err != nil {
		t.Errorf("got %v, %v for no transcript", events, err)
	}
}

// TestWriteFile reads a file while it is replaced: it always has the complete old or new
// content, and no other files remain.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.json")
	contents := [][]byte{bytes.Repeat([]byte("a"), 1<<20), bytes.Repeat([]byte("b"), 1<<20)}
	if err := WriteFile(path, contents[0]); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			got, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1]) {
				t.Errorf("%d bytes, %v", len(got), err)
				return
			}
		}
	})
	for i := range 20 {
		if err := WriteFile(path, contents[i%2]); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	reading.Wait()

	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "taken"), nil); err == nil {
		t.Error("a directory was replaced")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestDocumentsComeBack(t *testing.T) {
	dir := Dir(t.TempDir())
	trial := Trial{Task: "t<&>", Number: 2, Plan: json.RawMessage(`{"n":9007199254740993}`)}
	verdicts := Verdicts{Class: ClassPass, Score: 1, Verdicts: []Verdict{{Name: "v", Result: VerdictPass, Weight: 0.5}}}
	calls := []Call{{Seq: 1, ID: json.RawMessage(`1.0`)}, {Seq: 2, ID: json.RawMessage(`"1"`)}}
	if err := errors.Join(dir.WriteTrial(trial), dir.WriteVerdicts(verdicts), dir.WriteCalls(calls)); err != nil {
		t.Fatal(err)
	}
	gotTrial, errTrial := dir.Trial()
	gotVerdicts, errVerdicts := dir.Verdicts()
	gotCalls, errCalls := dir.Calls()
	if err := errors.Join(errTrial, errVerdicts, errCalls); err != nil {
		t.Fatal(err)
	}
	compact := cmp.Transformer("compact", func(m json.RawMessage) string {
		var buf bytes.Buffer
		_ = json.Compact(&buf, m)
		return buf.String()
	})
	if diff := cmp.Diff(trial, gotTrial, compact) + cmp.Diff(verdicts, gotVerdicts) + cmp.Diff(calls, gotCalls); diff != "" {
		t.Error(diff)
	}
}

// TestASecretAtTheCut checks that no part of a secret is kept where a frame is cut.
func TestASecretAtTheCut(t *testing.T) {
	secrets := &secret.Set{}
	secrets.Add("s3cret")
	r, dir := newRecorder(t, secrets)
	r.limit = 8
	r.Frame(Frame{Raw: []byte(`{"k":"s3cret"}`)})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for frame, err := range dir.Frames() {
		if err != nil || bytes.Contains(frame.Raw, []byte("s3")) || frame.Truncated == 0 {
			t.Errorf("%q, %v", frame.Raw, err)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLongFramesAreCut(t *testing.T) {
	r, dir := newRecorder(t, nil)
	r.limit = 10
	r.Frame(Frame{Raw: make([]byte, 15)})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for frame, err := range dir.Frames() {
		if err != nil || len(frame.Raw) != 10 || frame.Truncated != 5 {
			t.Errorf("%d bytes, %d cut, %v", len(frame.Raw), frame.Truncated, err)
		}
	}
}

func TestFrameKeepsWhoSawIt(t *testing.T) {
	line, err := Frame{Seq: 1, Raw: []byte("{}"), Side: SideServer, Synthetic: SyntheticHidden}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var back Frame
	if err := back.UnmarshalJSON(line); err != nil || back.Side != SideServer || back.Synthetic != SyntheticHidden {
		t.Errorf("%s became %+v, %v", line, back, err)
	}
}
