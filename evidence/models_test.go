package evidence

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/model/dialect"
)

// TestModelCalls checks that a call is read as it was recorded, except for secrets.
func TestModelCalls(t *testing.T) {
	t.Parallel()
	secrets := &secret.Set{}
	secrets.Add("s3cret-key")
	dir := filepath.Join(t.TempDir(), "trial")
	rec, err := Create(dir, secrets, nil)
	if err != nil {
		t.Fatal(err)
	}
	at, cost := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 0.25
	calls := []ModelCall{
		{
			Seq: 2, Provider: "p", Method: "POST", Path: "/x", Dialect: dialect.Chat, Model: "m", RequestSHA256: "0", Status: 200, ContentType: "text/event-stream",
			Request: []byte(`{"a":"é","n":1.0}`), Response: []byte("data: \"x\"\n\ndata: <&>\n\n"), Start: at, FirstByte: at, FirstToken: at, End: at,
			Usage: &dialect.Usage{Input: 1, Output: 2}, Cost: &cost, Outcome: ModelOK,
		},
		{Seq: 1, Provider: "p", Method: "GET", Path: "/m", Response: []byte{0xff, 0}, Start: at, End: at, Outcome: ModelTransport, Error: "why", Truncated: 7},
	}
	for _, c := range calls {
		rec.ModelCall(c)
	}
	rec.ModelCall(ModelCall{Seq: 3, Path: "/s3cret-key", Request: []byte(`{"k":"s3cret-key"}`), Response: []byte("data: s3cret-key"), Redacted: 1, Start: at, End: at})
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	var got []ModelCall
	for c, err := range Dir(dir).ModelCalls() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c)
	}
	if len(got) != 3 {
		t.Fatalf("%d calls", len(got))
	}
	if diff := cmp.Diff(calls, got[:2]); diff != "" {
		t.Errorf("(-recorded +read):\n%s", diff)
	}
	if last := got[2]; last.Redacted != 4 || string(last.Request) != `{"k":"**********"}` || string(last.Response) != "data: **********" || last.Path != "/**********" {
		t.Errorf("%+v", last)
	}
	file, err := os.ReadFile(filepath.Join(dir, ModelsFile))
	if err != nil || bytes.Contains(file, []byte("s3cret-key")) || strings.Count(string(file), "\n") != 3 {
		t.Errorf("%v, %s", err, file)
	}
}

func TestNoModelCalls(t *testing.T) {
	t.Parallel()
	for _, err := range Dir(t.TempDir()).ModelCalls() {
		t.Errorf("there is one, or %v", err)
	}
}
