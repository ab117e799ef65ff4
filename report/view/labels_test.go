package view

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLabelTexts(t *testing.T) {
	got := LabelTexts(map[string]json.RawMessage{
		"schemaVersion": []byte(`"1.2"`), "metrics": []byte("[\n  \"accuracy\"\n]"), "golden": []byte(`"` + strings.Repeat("x", 1000) + `"`),
	})
	if len(got) != 3 || len(got[0]) > 200 {
		t.Fatalf("%q", got)
	}
	if diff := cmp.Diff([]string{`metrics ["accuracy"]`, "schemaVersion 1.2"}, got[1:]); diff != "" {
		t.Error(diff)
	}
}
