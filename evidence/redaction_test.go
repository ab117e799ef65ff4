package evidence

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/text"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/sandbox/observe"
)

type (
	marked = secret.Mark
	span   = secret.Span
)

// Whatever is recorded is recorded without secrets, and counted by file and by secret.
func TestRedacted(t *testing.T) {
	secrets := &secret.Set{}
	const secret = "hunter2-and-more"
	secrets.Add(secret, "it/TOKEN")
	secrets.Add("nameless-secret")
	r, dir := newRecorder(t, secrets)
	r.Frame(Frame{Server: "it", Dir: ToClient, Raw: []byte(`{"result":"` + secret + ` ` + secret + ` nameless-secret"}`)})
	r.Frame(Frame{Server: "it", Dir: ToServer, Raw: []byte(`{}`), Peer: &Peer{UserAgent: "curl " + secret, Session: secret}})
	r.Frame(Frame{Server: "it", Dir: ToClient, Synthetic: SyntheticTimeout, Raw: []byte(`{"error":"` + secret + `"}`)})
	r.Event(Event{Kind: "stdout_noise", Message: secret, Data: map[string]any{secret: secret}})
	r.ModelCall(ModelCall{Seq: 1, Path: "/" + secret, Request: []byte(secret), Response: []byte(secret)})
	if err := r.Step(Step{Grader: "g", Kind: StepCall, Ask: []byte(`{}`), Answer: []byte(`"` + secret + `"`), Error: secret}); err != nil {
		t.Fatal(err)
	}
	var tree bytes.Buffer
	w := tar.NewWriter(&tree)
	if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "notes", Size: int64(len(secret))}), write(w, secret), w.Close()); err != nil {
		t.Fatal(err)
	}
	log, errLog := r.ServerLog("it", nil)
	out, errTree := r.Tree(WorkspaceFile)
	reported, errReported := r.Raw(TranscriptFile)
	_, errEvent := r.WriteTranscript(reported, TranscriptEvent{Type: "assistant.message", Content: secret}, 0, nil)
	if err := errors.Join(errLog, errTree, errReported, write(log, secret[:5]), write(log, secret[5:]+secret), log.Close(),
		write(out, tree.String()), out.Close(), errEvent, reported.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	count := func(spans int, marks ...marked) Redaction {
		return Redaction{Spans: spans, Secrets: map[string]int{"it/TOKEN": spans}, Marks: marks}
	}
	at := func(in string, offset int) marked {
		return marked{In: in, Span: span{At: offset, Bytes: len(secret), Secrets: []string{"it/TOKEN"}}}
	}
	inTree := count(1, at("notes", 0))
	inTree.Files = map[string]int{"notes": 1}
	want := map[string]Redaction{
		FramesOf("it"):      {Spans: 6, Secrets: map[string]int{"it/TOKEN": 5}},
		EventsFile:          count(3),
		ModelsFile:          count(3),
		StepsFile:           count(2),
		"servers/it.stderr": count(2, at("", 0), at("", len(secret))),
		TranscriptFile:      count(1, at("", len(`{"type":"assistant.message","content":"`))),
		WorkspaceFile:       inTree,
	}
	if diff := cmp.Diff(want, r.Redacted()); diff != "" {
		t.Errorf("(-want +recorded):\n%s", diff)
	}
	var frames [][]span
	for f, err := range dir.Frames() {
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f.Spans)
	}
	name := []string{"it/TOKEN"}
	first := []span{{At: 11, Bytes: 16, Secrets: name}, {At: 28, Bytes: 16, Secrets: name}, {At: 45, Bytes: 15}}
	if diff := cmp.Diff([][]span{first, nil, {{At: 10, Bytes: 16, Secrets: name}}}, frames); diff != "" {
		t.Errorf("spans of frames (-want +recorded):\n%s", diff)
	}
	err := filepath.WalkDir(string(dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(secret)) || bytes.Contains(content, []byte("nameless-secret")) {
			t.Errorf("%s has a secret: %s", path, content)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	echoes, err := dir.Echoes(Trial{Servers: []ServerRecord{{Name: "it"}}, Redacted: r.Redacted()})
	if diff := cmp.Diff(map[string][]Echo{"it": {{Secret: "it/TOKEN", Frames: 2, Stderr: 2}}}, echoes); err != nil || diff != "" {
		t.Errorf("%v, (-want +said):\n%s", err, diff)
	}
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// What a text begins with that was cut before secrets were looked for is no part of one.
func TestCutBeforeRedacted(t *testing.T) {
	secrets := &secret.Set{}
	secret := strings.Repeat("Tok3n/", 400)
	secrets.Add(secret, "it/TOKEN")
	r, dir := newRecorder(t, secrets)
	ledger := observe.NewLedger()
	ledger.Program("/bin/"+secret, func() []string { return []string{"--token=" + secret, "short Tok3n"} })
	ledger.Connection("unix", "/run/"+secret)
	ledger.Lack(observe.Files, "no "+secret)
	ledger.Program("/bin/x", func() []string { return []string{strings.Repeat("x", 190) + secret} })
	seen := ledger.Seen()
	seen.AddFiles([]observe.FileChange{{Path: observe.Text("/tmp/" + secret), What: "created"}})
	r.Event(Event{Kind: "stdout_noise", Message: text.Shorten("> "+secret, 300) + ": it said", Data: map[string]any{"name": text.Shorten(secret, 200)}})
	if err := errors.Join(r.Observed([]Observed{{"it", seen}, {"other", observe.Seen{Unseen: map[string]string{"files": secret}}}}), r.Close()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{EventsFile, ObservedFile} {
		text, err := os.ReadFile(filepath.Join(string(dir), name))
		if rest := strings.Replace(string(text), "short Tok3n", "", 1); err != nil || strings.Contains(rest, "Tok") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	if got := r.Redacted()[ObservedFile]; got.Spans != 1 || got.Secrets["it/TOKEN"] != 1 {
		t.Errorf("taken out of %s: %+v", ObservedFile, got)
	}
}
