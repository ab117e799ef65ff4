package conformance_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// check is one check of a scenario, as written by suite.mjs.
type check struct {
	ID      string `json:"id"`
	Status  string `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED or INFO
	Message string `json:"message"`
}

// findings maps scenarios to their checks.
type findings map[string][]check

func (f findings) checks() (n int) {
	for _, checks := range f {
		n += len(checks)
	}
	return n
}

// statuses returns the statuses of each check, in order. A scenario may make a check more
// than once.
func statuses(checks []check) map[string][]string {
	all := map[string][]string{}
	for _, c := range checks {
		all[c.ID] = append(all[c.ID], c.Status)
	}
	return all
}

// differences names every check of a scenario whose status differs between direct and
// through.
func differences(direct, through findings) []string {
	var found []string
	scenarios := maps.Clone(direct)
	maps.Copy(scenarios, through)
	for _, scenario := range slices.Sorted(maps.Keys(scenarios)) {
		want, got := statuses(direct[scenario]), statuses(through[scenario])
		ids := maps.Clone(want)
		maps.Copy(ids, got)
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			if !slices.Equal(want[id], got[id]) {
				found = append(found, fmt.Sprintf("%s, %s: direct %v, through waza %v%s",
					scenario, id, want[id], got[id], messages(through[scenario], id)))
			}
		}
	}
	return found
}

// inBoth returns the differences in one whose check also differs in other. Some scenarios
// give a server only about a second to send a message, which can fail on a busy machine;
// differences caused by the proxy are in every run.
func inBoth(one, other []string) []string {
	check := func(difference string) string {
		name, _, _ := strings.Cut(difference, ":")
		return name
	}
	var found []string
	for _, d := range one {
		if slices.ContainsFunc(other, func(o string) bool { return check(o) == check(d) }) {
			found = append(found, d)
		}
	}
	return found
}

func messages(checks []check, id string) string {
	var b strings.Builder
	for _, c := range checks {
		if c.ID == id && c.Message != "" {
			fmt.Fprintf(&b, "\n\t%.300s", c.Message)
		}
	}
	return b.String()
}

func TestDifferences(t *testing.T) {
	direct := findings{
		"ping":  {{ID: "a", Status: "SUCCESS"}, {ID: "b", Status: "FAILURE"}},
		"twice": {{ID: "a", Status: "SUCCESS"}, {ID: "a", Status: "FAILURE"}},
		"gone":  {{ID: "a", Status: "SUCCESS"}},
	}
	through := findings{
		"ping":  {{ID: "b", Status: "FAILURE"}, {ID: "a", Status: "SUCCESS"}},
		"twice": {{ID: "a", Status: "SUCCESS"}, {ID: "a", Status: "SUCCESS"}},
		"new":   {{ID: "c", Status: "WARNING", Message: "why"}},
	}
	want := []string{
		"gone, a: direct [SUCCESS], through waza []",
		"new, c: direct [], through waza [WARNING]\n\twhy",
		"twice, a: direct [SUCCESS FAILURE], through waza [SUCCESS SUCCESS]",
	}
	if diff := cmp.Diff(want, differences(direct, through)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[1:2], inBoth(want, []string{"new, c: direct [], through waza [FAILURE]", "new, d: x"})); diff != "" {
		t.Error(diff)
	}
	if found := differences(direct, direct); found != nil {
		t.Errorf("against itself: %q", found)
	}
}
