package plan

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/mcpconfig"
)

// A variable's value is secret unless it is short, or the eval's own files say it.
func TestVariables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eval.yaml")
	if err := os.WriteFile(path, []byte("env: {DB: postgres}\nsay: the xxgarden of gardens_1, hunter2-and-more."), 0o600); err != nil {
		t.Fatal(err)
	}
	open := map[string]string{}
	c := Choices{
		Secrets: &secret.Set{}, Open: func(variable, why string) { open[variable] = why },
		written: writtenIn(&eval.Eval{Path: path, TextFiles: []string{"none"}}, nil),
	}
	got := c.hide([]mcpconfig.Value{
		{Variable: "DB", Text: "postgres"}, {Variable: "FLAG", Text: "true"}, {Variable: "PORT", Text: "80801"}, {Variable: "NUMBER", Text: "12345678901"},
		{Variable: "CARD", Text: "123456789012"}, {Variable: "PART", Text: "garden"}, {Variable: "PART_TOO", Text: "hunter2-and"}, {Variable: "KEY", Text: "k3y-of-mine"},
	})
	if diff := cmp.Diff([]string{"123456789012", "garden", "k3y-of-mine"}, got); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	short, number, said := "it has fewer than 6 bytes", "it is a number of fewer than 12 digits", "the eval's own files contain it"
	want := map[string]string{"DB": said, "FLAG": short, "PORT": short, "NUMBER": number, "PART_TOO": said}
	if diff := cmp.Diff(want, open); diff != "" {
		t.Errorf("(-want +told):\n%s", diff)
	}
	if _, found := c.Secrets.Bytes([]byte("my garden")); found.Secrets["PART"] != 1 {
		t.Errorf("found %+v", found)
	}
}
