package trial

import (
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/catalog"
)

// A tool that was described otherwise for a while is not as it was pinned, though it is
// so at last; and one that was never listed is not told as gone unless the list is whole.
func TestReportedOtherwise(t *testing.T) {
	const digest = "sha256:1"
	pin := catalog.Pin{Lists: map[catalog.Kind]map[string]string{catalog.Tools: {"add": digest}}}
	tests := map[string]struct {
		catalog evidence.Catalog
		want    int
	}{
		"as pinned":   {evidence.Catalog{Complete: true, Tools: []evidence.Tool{{Name: "add", Digest: digest}}}, 0},
		"for a while": {evidence.Catalog{Complete: true, Tools: []evidence.Tool{{Name: "add", Digest: digest}}, Changes: []evidence.Change{{Tool: "add", What: evidence.ChangedDescription}}}, 1},
		"nothing yet": {evidence.Catalog{}, 0},
		"none at all": {evidence.Catalog{Complete: true}, 1},
		"removed":     {evidence.Catalog{Complete: true, Tools: []evidence.Tool{{Name: "add", Digest: digest, Removed: 9}}}, 1},
		"one more":    {evidence.Catalog{Tools: []evidence.Tool{{Name: "new", Digest: "x"}}}, 1},
	}
	for name, tt := range tests {
		if got := listedDifferences(pin, tt.catalog); len(got) != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
