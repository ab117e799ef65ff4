package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/results"
)

func write(t *testing.T, d Document, p Page) string {
	t.Helper()
	var out bytes.Buffer
	if err := d.Write(&out, One(p)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPolicyNamesWhatIsThere(t *testing.T) {
	page := write(t, Document{Title: "t"}, Overview(Run{}, Links{InFile: true}))
	for _, tag := range []string{"style", "script"} {
		_, rest, found := strings.Cut(page, "<"+tag+">")
		content, _, ended := strings.Cut(rest, "</"+tag+">")
		if !found || !ended {
			t.Fatalf("no %s in the page", tag)
		}
		sum := sha256.Sum256([]byte(content))
		if want := tag + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(Policy(false), want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
}

func TestStrangersTextIsText(t *testing.T) {
	const evil = "</title><script>alert(1)</script>\u202e<img src=x onerror=alert(1)>"
	run := Run{Results: results.Results{EvalName: evil, Tasks: []results.Task{{
		TestID: evil, DisplayName: evil, Runs: []results.RunResult{{RunNumber: 1, Outcome: evidence.ClassPass}},
	}}}}
	page := write(t, Document{Title: evil}, Overview(run, Links{InFile: true}))
	if strings.Count(page, "<script") != 1 || strings.Contains(page, "<img") || strings.Contains(page, "\u202e") {
		t.Errorf("a stranger's text is more than text:\n%s", page)
	}
}
