package stub

import (
	"testing"

	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/model/dialect"
)

// A condition on a tool is met by the tools that a call of that name can mean.
func TestToolConditions(t *testing.T) {
	met := 0
	names := []string{"a", "b a", "ba", "a_b", "_a", "é", "éa", "a.b", "axb", "$", "^a$", "1a"}
	for _, local := range names {
		for _, namespace := range []string{"", "mcp__s", "mcp__s__", "a"} {
			tool := dialect.ToolName{Local: local, Namespace: namespace}
			for _, name := range names {
				side := cassette.Side{Entries: []cassette.Entry{{Match: condition{Tool: name}.conditions(), Answer: &cassette.Answer{}}}}
				if err := side.Compile(); err != nil {
					t.Fatal(err)
				}
				_, miss := side.Play().Ask("", (&request{tools: []dialect.ToolName{{Local: "other"}, tool, {Local: "more"}}}).members())
				if miss == nil {
					met++
				}
				if want := named(tool, name); (miss == nil) != want {
					t.Errorf("tool %q of %q meets %q: %t, want %t", local, namespace, name, miss == nil, want)
				}
			}
		}
	}
	if met == 0 {
		t.Error("no condition is met")
	}
}
