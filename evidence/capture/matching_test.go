package capture

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// Names that fit several tools, reported far more often than called, in orders that make
// a search visit many calls. It counts how often a call is visited.
func TestManyAmbiguousNames(t *testing.T) {
	const n = 10_000
	either := []evidence.ToolRef{{Server: "a", Tool: "x"}, {Server: "b", Tool: "x"}}
	reported := func(bare bool, arguments int, tools ...evidence.ToolRef) reportedUse {
		return reportedUse{name: fmt.Sprint(tools), form: fmt.Sprint(arguments), means: Resolution{Kind: NameAmbiguous, Tools: tools, Bare: bare}}
	}
	for _, test := range []struct {
		name     string
		reported func(i int) reportedUse
	}{
		{"all alike", func(int) reportedUse { return reported(false, 0, either...) }},
		{"all with other arguments", func(i int) reportedUse { return reported(false, i, either...) }},
		{"that are no calls but for their arguments", func(i int) reportedUse { return reported(true, i/4, either...) }},
		{"of one tool and then of the other", func(i int) reportedUse {
			return reported(false, i, either[i/n], evidence.ToolRef{Server: "c", Tool: "x"})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &Pairing{}
			for i := range n {
				p.calls = append(p.calls, evidence.Call{Server: either[i%2].Server, Tool: "x", Arguments: json.RawMessage(fmt.Sprint(i))})
				p.input = append(p.input, fmt.Sprint(i))
			}
			p.taken = make([]bool, n)
			for i := range 2 * n {
				p.reported = append(p.reported, test.reported(i))
			}
			m := newMatching(p)
			for i := range p.reported {
				m.add(i)
			}
			t.Log(m.looks)
			if most := 10 * 3 * n; m.looks > most {
				t.Errorf("%d looks; want %d at most, which is ten for each call and use", m.looks, most)
			}
		})
	}
}
