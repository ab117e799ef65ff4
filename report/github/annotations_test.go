package github_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/github"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

func TestAnnotations(t *testing.T) {
	t.Parallel()
	fails := func(n int, outcome evidence.Class, message string) results.RunResult {
		return results.RunResult{RunNumber: n, Outcome: outcome, Message: message}
	}
	run := view.Run{Results: results.Results{Tasks: []results.Task{
		{TestID: "price", Runs: []results.RunResult{fails(1, evidence.ClassFail, "said: no 5"), fails(2, evidence.ClassPass, ""), fails(3, evidence.ClassFail, "said: no 5")}},
		{TestID: "mail", Runs: []results.RunResult{fails(1, evidence.ClassInfra, "100%\r\n::error::owned")}},
		{TestID: "bait", Runs: []results.RunResult{{RunNumber: 1, Outcome: evidence.ClassPass, Attack: &results.Attack{Result: evidence.AttackSucceeded, Goal: "send the key", Reasons: []string{"It sent it."}}}}},
	}}}
	var out strings.Builder
	err := github.WriteAnnotations(&out, github.Annotations(run, map[string]github.Place{"price": {File: "a,b:c/price.yaml", Line: 3}, "mail": {File: "mail.yaml"}}))
	want := `::error title=bait%3A attack succeeded::send the key: It sent it.
::error file=a%2Cb%3Ac/price.yaml,line=3,title=price%3A fail in 2 of 3 trials::said: no 5
::warning file=mail.yaml,line=1,title=mail%3A incomplete::100%25
`
	if diff := cmp.Diff(want, out.String()); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// No text of a stranger's ends its annotation, and there are not more than are shown.
func TestHostile(t *testing.T) {
	t.Parallel()
	command := regexp.MustCompile(`^::(error|warning) (file=[^:,\r\n]*,line=\d+,)?title=[^:,\r\n]*::[^\r\n]*$`)
	said := "x\r\n::error::owned\n::add-mask::a,title=b::%0A\x1b[2J\u202e" + strings.Repeat("long ", 1000)
	for n := range 25 {
		all := make([]github.Annotation, n)
		for i := range all {
			all[i] = github.Annotation{Level: github.Error, Place: github.Place{File: said, Line: i}, Title: said, Message: said}
		}
		var out strings.Builder
		if err := github.WriteAnnotations(&out, all); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if n > 0 && len(lines) != min(n, 10) {
			t.Errorf("%d of %d annotations", len(lines), n)
		}
		for _, line := range lines[:min(n, 10)] {
			if !command.MatchString(line) {
				t.Errorf("%.200q", line)
			}
		}
		if n > 10 && !strings.Contains(lines[9], fmt.Sprintf("title=%d more::", n-9)) {
			t.Errorf("the last of %d is %.100q", n, lines[9])
		}
	}
}
