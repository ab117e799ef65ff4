package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// secrets that a server may hold: text, digits that stand in the plan's numbers,
// and a word that is a key of trial.json.
var testSecrets = []string{"hunter2-and-more", "6000", "prompt"}

func testSet() *secret.Set {
	set := &secret.Set{}
	for _, secret := range testSecrets {
		set.Add(secret)
	}
	return set
}

// gossip writes every secret wherever an agent can leave text, except to its workspace,
// which is kept unchanged.
func gossip(all string) program {
	return program{run: func(p *fakeProcess) int {
		if _, err := callStock(p.container, "stock"); err != nil {
			fmt.Fprintln(p.err, err)
			return 1
		}
		for i := range all { // byte by byte: no write holds a whole secret
			io.WriteString(p.out, all[i:i+1])
			io.WriteString(p.err, all[i:i+1])
		}
		said, _ := json.Marshal(evidence.TranscriptEvent{Type: "assistant.message", Content: all})
		p.container.write(plan.TranscriptPath, fakeFile{content: string(said) + "\n"})
		p.container.observe(evidence.Event{Kind: "dns", Where: sandbox.Agent, Message: all})
		return 0
	}}
}

func TestNoSecretIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := strings.Join(testSecrets, " ")
		b, o, trial := testBackend(), options(t), testTrial(1)
		o.Host.Secrets = testSet()
		trial.Agent.Executor, trial.Agent.Transcript = "script", plan.TranscriptPath
		trial.Agent.Prompt = "Log in with " + all
		trial.Servers[0].Image = "registry/" + all
		trial.Graders = []evidence.GraderSpec{grader("text", `{"contains":["****"]}`)}
		b.programs["stock"] = stockServer(all, all)
		b.programs[sandbox.Agent] = gossip(all)
		b.collect[sandbox.WorkspaceDir] = func(io.Writer) error { return errors.New("no " + all) }
		b.on["close"] = fails(errors.New("cannot remove " + all))
		r := runOne(t, b, trial, o)
		wantOutcome(t, r, evidence.ClassInfra, "cannot remove **************** **** ******")
		if _, err := WriteResults(o.Dir, Record{Choices: Choices{Trials: 1}, Tasks: []TaskRecord{{ID: "buy"}}}); err != nil {
			t.Error(err)
		}
		for _, secret := range testSecrets {
			wantNowhere(t, o.Dir, secret)
		}
		for name, field := range map[string]string{
			"prompt": r.Trial.Prompt, "final output": r.Trial.FinalOutput, "gap": strings.Join(r.Trial.Gaps, ""), "image": r.Trial.Servers[0].Image,
		} {
			if !strings.Contains(field, "**************** **** ******") {
				t.Errorf("%s: %q", name, field)
			}
		}
		if got := r.Trial.Task + r.Trial.Servers[0].Name; got != "buystock" {
			t.Errorf("names are %q", got)
		}
	})
}

// notFree is what is not text: keys, and a number of the plan.
var notFree = regexp.MustCompile(`"[a-z_]+":|60000000000`)

// wantNowhere checks that no file under dir contains secret, except in JSON keys and
// numbers.
func wantNowhere(t *testing.T, dir, secret string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		text := notFree.ReplaceAllString(string(content), "")
		if strings.Contains(text, secret) {
			t.Errorf("%s holds %q:\n%s", path, secret, text)
		}
		return err
	})
	if err != nil || files < 8 {
		t.Errorf("%d files, %v", files, err)
	}
}
