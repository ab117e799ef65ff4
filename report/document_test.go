package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

func write(t testing.TB, d Document, p Page) string {
	t.Helper()
	var out bytes.Buffer
	if err := d.Write(&out, func(yield func(Page, error) bool) { yield(p, nil) }); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPolicyNamesWhatIsThere(t *testing.T) {
	page := write(t, Document{Title: "t"}, Overview(view.Run{}, Links{InFile: true}))
	for tag, most := range map[string]int{"style": 1, "script": 2} {
		blocks := strings.Split(page, "<"+tag+">")[1:]
		if len(blocks) != most {
			t.Fatalf("%d of %s in the page", len(blocks), tag)
		}
		for _, block := range blocks {
			content, _, ended := strings.Cut(block, "</"+tag+">")
			sum := sha256.Sum256([]byte(content))
			want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
			if _, sources, _ := strings.Cut(Policy(false), tag+"-src "); !ended || !strings.Contains(strings.Split(sources, ";")[0], want) {
				t.Errorf("the policy lacks %s of a %s", want, tag)
			}
		}
	}
}

func TestStrangersTextIsText(t *testing.T) {
	const evil = "</title><script>alert(1)</script>\u202e<img src=x onerror=alert(1)>"
	run := view.Run{Results: results.Results{EvalName: evil, Tasks: []results.Task{{
		TestID: evil, DisplayName: evil, Runs: []results.RunResult{{RunNumber: 1, Outcome: evidence.ClassPass}},
	}}}}
	page := write(t, Document{Title: evil}, Overview(run, Links{InFile: true}))
	if strings.Count(page, "<script") != 2 || strings.Contains(page, "<img") || strings.Contains(page, "\u202e") {
		t.Errorf("a stranger's text is more than text:\n%s", page)
	}
}
