package runner

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

func TestFinalOutputThatIsTooLarge(t *testing.T) {
	const final = 16 << 20
	heavytest.Mark(t)
	text := strings.Repeat("4.20 ", final/5+1)
	asFile := withOutput()
	asFile.Agent.Disk = final * 2
	for name, test := range map[string]struct {
		trial *plan.Trial
		agent program
	}{
		"stdout": {testTrial(1), says(text)},
		"a file": {asFile, leaves("/workspace/out/answer.txt", fakeFile{content: text})},
	} {
		t.Run(name, func(t *testing.T) {
			b := testBackend()
			test.trial.Servers = nil
			b.programs[sandbox.Agent] = test.agent
			r := runOne(t, b, test.trial, options(t))
			wantOutcome(t, r, evidence.ClassAgentError, "the agent's final output is larger than 16777216 bytes")
			wantGap(t, r, "final output: only the first 16777216 bytes are kept")
			if len(r.Trial.FinalOutput) != final {
				t.Errorf("kept %d bytes", len(r.Trial.FinalOutput))
			}
		})
	}
}
