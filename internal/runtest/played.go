package runtest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner"
)

// Alone returns the command line that runs a program with only a loopback network and an empty
// environment.
func Alone(program string, args ...string) []string {
	const enter = `ip link set lo up && exec env -i HOME=/tmp PATH=/usr/bin:/bin "$@"`
	return append([]string{"unshare", "--net", "--map-root-user", "sh", "-c", enter, "sh", program}, args...)
}

// Dates matches dates of files that a server reports or uses in names of files.
var Dates = regexp.MustCompile(`\w{3} \w{3} \d\d \d{4} \d\d:\d\d:\d\d GMT\+0000 \(Coordinated Universal Time\)|\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z`)

// passing matches the other differences between two runs of the same calls if only one of them
// starts servers for each trial: times, numbers of frames and conversations (those of a server on
// HTTP are played as by one on stdio), and the processes of servers that graders asked.
var passing = regexp.MustCompile(`"(start|end|conn)":"[^"]*",?|"(request|response)_frame":[0-9]+,?|"asked": \[[^]]*\],?`)

// CheckPlayed checks that a run that plays another one has the same calls and verdicts in each
// trial.
func CheckPlayed(t testing.TB, live, played string) {
	t.Helper()
	dirs, err := runner.Trials(played)
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%s: %d trials, %v", played, len(dirs), err)
	}
	for _, dir := range dirs {
		trial, err := filepath.Rel(played, string(dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{evidence.CallsFile, evidence.VerdictsFile} {
			if diff := cmp.Diff(lasting(t, live, trial, name), lasting(t, played, trial, name)); diff != "" {
				t.Errorf("%s of %s (-live +played):\n%s", name, dir, diff)
			}
		}
	}
}

func lasting(t testing.TB, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return passing.ReplaceAllString(Dates.ReplaceAllString(string(data), ""), "")
}
