package runner

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// withOutput is a trial whose final output is a file that the agent writes.
func withOutput() *plan.Trial {
	trial := testTrial(1)
	trial.Agent.Output = "out/answer.txt"
	return trial
}

// leaves is an agent that makes one file.
func leaves(name string, f fakeFile) program {
	return program{run: func(p *fakeProcess) int { p.container.write(name, f); return 0 }}
}

func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	for _, header := range headers {
		if err := out.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWhatTheAgentLeaves(t *testing.T) {
	const answer = "/workspace/out/answer.txt"
	for _, test := range []struct {
		name   string
		agent  program
		tree   []byte // of the workspace, where it is not what was put there
		class  evidence.Class
		reason string
		gap    string
	}{
		{"the file", leaves(answer, fakeFile{content: "4.20"}), nil, evidence.ClassPass, "", ""},
		{"another's word", leaves(answer, fakeFile{content: "5"}), nil, evidence.ClassFail, "failed: text", ""},
		{"no file", ends(0), nil, evidence.ClassAgentError, "the agent left no final output", "final output: no regular file"},
		{"no file and a bad end", ends(2), nil, evidence.ClassAgentError, "the agent exited with code 2; the agent left no", "final output: no regular file"},
		{"a link", leaves(answer, fakeFile{link: "/etc/passwd"}), nil, evidence.ClassAgentError, "the agent left no final output", "final output: no regular file"},
		{"no tar", ends(0), bytes.Repeat([]byte("x"), 1024), evidence.ClassAgentError, "workspace cannot be collected: archive/tar", "workspace: archive/tar"},
		{"half a tar", ends(0), tarOf(t, tar.Header{Name: "other", Typeflag: tar.TypeReg})[:1024], evidence.ClassAgentError, "the tar ends before its end mark", "workspace: the tar ends"},
		{"a tar that leads out", ends(0), tarOf(t, tar.Header{Name: "../out/answer.txt", Typeflag: tar.TypeReg}), evidence.ClassAgentError, "no final output", "final output"},
		{"a device", ends(0), tarOf(t, tar.Header{Name: "out/answer.txt", Typeflag: tar.TypeBlock}), evidence.ClassAgentError, "no final output", "final output"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := testBackend()
				b.programs[sandbox.Agent] = test.agent
				if test.tree != nil {
					b.collect[sandbox.WorkspaceDir] = func(w io.Writer) error { _, err := w.Write(test.tree); return err }
				}
				r := runOne(t, b, withOutput(), options(t))
				wantOutcome(t, r, test.class, test.reason)
				wantGap(t, r, test.gap)
			})
		})
	}
}

func wantGap(t *testing.T, r Result, gap string) {
	t.Helper()
	all := strings.Join(r.Trial.Gaps, "\n")
	if gap == "" && all != "" || !strings.Contains(all, gap) {
		t.Errorf("gaps %q, want %q", all, gap)
	}
}

func TestWorkspaceThatCannotBeCollected(t *testing.T) {
	tooMuch := func(w io.Writer) error {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return err
			}
		}
	}
	closed := sandbox.ErrUnreadable.Error()
	const tooLarge = "is larger than its limit allows"
	for name, collect := range map[string]func(io.Writer) error{
		errGone.Error(): func(w io.Writer) error { io.WriteString(w, "torn"); return errGone },
		tooLarge:        tooMuch,
		closed:          func(io.Writer) error { return sandbox.ErrUnreadable },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, trial := testBackend(), testTrial(1)
				trial.Graders = append(trial.Graders, grader("file", `{"must_exist":["notes.txt"]}`))
				b.collect[sandbox.WorkspaceDir] = collect
				r := runOne(t, b, trial, options(t))
				switch name { // what the agent left is its own doing
				case tooLarge:
					wantOutcome(t, r, evidence.ClassAgentError, name)
				case closed:
					wantOutcome(t, r, evidence.ClassFail, "the agent removed its workspace")
				default:
					wantOutcome(t, r, evidence.ClassAgentError, "the agent's workspace cannot be collected: "+name)
				}
				wantGap(t, r, "workspace: "+name)
				if text := r.Verdicts.Verdicts[0]; text.Result != evidence.VerdictPass {
					t.Errorf("the grader that needs no workspace: %+v", text)
				}
				if _, err := os.Stat(filepath.Join(string(r.Dir), evidence.WorkspaceFile)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("half a workspace is kept: %v", err)
				}
			})
		})
	}
}

// Whose fault it is that something is not collected, or that a sandbox is not removed.
func TestWhoSpoilt(t *testing.T) {
	closed := tarOf(t, tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o7000}, tar.Header{Name: "notes.txt", Typeflag: tar.TypeReg})
	cut := tarOf(t, tar.Header{Name: "a", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"WAZA.cut": "cannot be read: busy"}}, tar.Header{Name: "notes.txt", Typeflag: tar.TypeReg})
	writes := func(tree []byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(tree); return err }
	}
	for name, test := range map[string]struct {
		collect func(io.Writer) error
		close   error
		class   evidence.Class
		reason  string
	}{
		"a closed workspace":            {writes(closed), nil, evidence.ClassFail, "the agent closed its workspace, whose mode it set to 07000"},
		"a file that cannot be read":    {writes(cut), nil, evidence.ClassAgentError, `what the agent left in "a" is not collected: it cannot be read: busy`},
		"the disk":                      {func(io.Writer) error { return &fs.PathError{Op: "read", Path: "x", Err: syscall.EIO} }, nil, evidence.ClassInfra, "input/output error"},
		"what keeps it from removal":    {writes(tarOf(t, tar.Header{Name: "notes.txt", Typeflag: tar.TypeReg})), sandbox.ErrLeft, evidence.ClassAgentError, sandbox.ErrLeft.Error()},
		"lost with the sandbox besides": {func(io.Writer) error { return errGone }, errors.New("stuck"), evidence.ClassInfra, "stuck"},
		"too large, and stuck":          {func(io.Writer) error { return fmt.Errorf("%w: it", sandbox.ErrUnreadable) }, errors.New("stuck"), evidence.ClassFail, "stuck"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, trial := testBackend(), testTrial(1)
				trial.Graders = []evidence.GraderSpec{grader("file", `{"must_exist":["notes.txt"]}`)}
				b.collect[sandbox.WorkspaceDir] = test.collect
				if test.close != nil {
					b.on["close"] = fails(test.close)
				}
				wantOutcome(t, runOne(t, b, trial, options(t)), test.class, test.reason)
			})
		})
	}
}

// A guest that was taken over may never answer.
func TestCollectingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testBackend()
		b.collect[sandbox.WorkspaceDir] = func(io.Writer) error {
			time.Sleep(2 * time.Minute)
			return context.DeadlineExceeded
		}
		r := runOne(t, b, testTrial(1), options(t))
		wantGap(t, r, "workspace: context deadline exceeded")
		if took := r.Trial.Ended.Sub(r.Trial.AgentEnd); took > 2*time.Minute+90*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestTranscript(t *testing.T) {
	const line = `{"type":"assistant.message","content":"4.20"}` + "\n"
	for _, test := range []struct {
		name string
		file fakeFile
		kept string
		gap  string
	}{
		{"kept", fakeFile{content: line}, line, ""},
		{"a link", fakeFile{link: "/etc/shadow"}, "", "transcript: no regular file"},
		{"binary", fakeFile{content: "\x00\xff\n"}, "\x00\xff\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, trial := testBackend(), testTrial(1)
				trial.Agent.Executor, trial.Agent.Transcript = "script", plan.TranscriptPath
				b.programs[sandbox.Agent] = leaves(plan.TranscriptPath, test.file)
				r := runOne(t, b, trial, options(t))
				wantGap(t, r, test.gap)
				got, _ := os.ReadFile(filepath.Join(string(r.Dir), evidence.TranscriptFile))
				if string(got) != test.kept {
					t.Errorf("kept %q, want %q", got, test.kept)
				}
				if entries, _ := filepath.Glob(filepath.Join(string(r.Dir), ".*")); len(entries) > 0 {
					t.Errorf("left over: %q", entries)
				}
			})
		})
	}
}
