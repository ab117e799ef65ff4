package evidence

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Runs that were recorded before are read too.
func TestImageRecord(t *testing.T) {
	var got ImageRecords
	err := json.Unmarshal([]byte(`{"a": "sha256:1", "b": {"id": "sha256:2", "digests": ["b@sha256:3"]}}`), &got)
	want := ImageRecords{"a": {ID: "sha256:1"}, "b": {ID: "sha256:2", Digests: []string{"b@sha256:3"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
