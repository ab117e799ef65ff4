package match

import (
	"encoding/json"
	"fmt"
	"testing"
)

// BenchmarkMatch pairs 10,000 calls of one tool with 50 slots that differ in their
// arguments: the most that can be asked of that many.
func BenchmarkMatch(b *testing.B) {
	const slots, made = 50, 10_000
	var expected []Expected
	for i := range slots {
		expected = append(expected, Once(target(b, "search",
			fmt.Sprintf(`{"values":{"page":%d,"query":{"regex":"q[%d-9]"},"sort":"asc","size":{"range":[0,%d]}}}`, i, i%10, i))))
	}
	var calls []Call
	for i := range made {
		calls = append(calls, Call{
			Server: "s", Tool: "search", OK: i%7 > 0,
			Arguments: json.RawMessage(fmt.Sprintf(`{"page":%d,"query":"q%d","sort":"asc","size":%d}`, i%40, i%10, i%60)),
		})
	}
	for _, mode := range []Mode{Effects, Exact, Subset} {
		b.Run(string(mode), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Match(mode, expected, calls)
			}
		})
	}
	b.Run("unlimited", func(b *testing.B) {
		b.ReportAllocs()
		expected := append([]Expected{{Targets: []Target{target(b, "search", "")}, Min: made / 2, Max: Unlimited}}, expected...)
		for b.Loop() {
			Match(Unordered, expected, calls)
		}
	})
}
