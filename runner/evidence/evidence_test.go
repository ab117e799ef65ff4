package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waza-isolate/waza/runner/redact"
)

// FuzzFrame holds that a frame comes back to the byte, and on one line.
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

func newRecorder(t *testing.T, secrets *redact.Set) (*Recorder, Dir) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "trial")
	r, err := Create(dir, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return r, Dir(dir)
}

func TestFramesAreNumberedWithoutGaps(t *testing.T) {
	r, dir := newRecorder(t, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				r.Frame(Frame{Server: "s", Raw: []byte("{}")})
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
	if events, err := dir.Events(); want != 401 || err != nil || len(events) != 400 {
		t.Errorf("%d frames, %d events, %v", want-1, len(events), err)
	}
}

func TestSecretsAreRedacted(t *testing.T) {
	secrets := &redact.Set{}
	secrets.Add("s3cret\"value")
	r, dir := newRecorder(t, secrets)
	r.Frame(Frame{Raw: []byte(`{"k":"s3cret\"value"}`)})
	r.Event(Event{Kind: "x", Message: `got s3cret"value`})
	log, err := r.ServerLog("s")
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
	if err := r.frames.Close(); err != nil {
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
	if _, err := Create(string(dir), nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
}

func TestATornLineIsAnError(t *testing.T) {
	r, dir := newRecorder(t, nil)
	r.Frame(Frame{Raw: []byte("{}")})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(string(dir), FramesFile)
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
