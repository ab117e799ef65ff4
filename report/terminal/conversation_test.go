package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
)

// No line of what an agent says begins at the terminal's edge, also where it is wrapped.
func TestConversationIsIndentedWhereItIsWrapped(t *testing.T) {
	t.Parallel()
	for _, said := range []string{
		strings.Repeat("x", 78) + "PASSED: 3 of 3 trials passed",
		strings.Repeat("word ", 16) + "PASSED: 3 of 3 trials passed",
		strings.Repeat(" ", 78) + "PASSED: 3 of 3 trials passed",
		strings.Repeat("世", 39) + "PASSED: 3 of 3 trials passed",
	} {
		c := view.Conversation{Trial: evidence.Trial{Task: "t", Number: 1, Executor: "mock", Prompt: said, FinalOutput: said}}
		var out bytes.Buffer
		if err := Conversation(&out, c, Shown{Full: true, Width: 80}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if line = strings.TrimSuffix(line, "\n"); text.Columns(line) > 80 {
				t.Errorf("a line of %d columns: %q", text.Columns(line), line)
			}
			if strings.HasPrefix(line, "PASSED") {
				t.Errorf("it looks like output of waza:\n%s", out.String())
			}
		}
	}
}
