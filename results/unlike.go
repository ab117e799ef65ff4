package results

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Setting is something that a run was made with, as text. One without a value is not
// known, and compared with none.
type Setting struct{ Name, Value string }

// Unlike is a setting that was another in two runs, as a line of text that is no longer
// than names are.
type Unlike struct {
	What   string `json:"what"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// unlike lists what differs between two runs beside agents and models, which runs are
// compared for.
func unlike(base, run Entry) (all []Unlike) {
	before := map[string]string{}
	for _, s := range base.settings() {
		before[s.Name] = s.Value
	}
	for _, s := range run.settings() {
		if b := before[s.Name]; b != "" && s.Value != "" && b != s.Value {
			all = append(all, Unlike{What: name(s.Name), Before: name(b), After: name(s.Value)})
		}
	}
	return all
}

// settings are those that results tell, and others that are known of the run.
func (e Entry) settings() []Setting {
	all := []Setting{
		{"eval", e.EvalName},
		{"isolated", yes(e.Isolated)},
		{"trials of a task", e.trialsOfTask()},
		{"time limit", seconds(e.TimeoutSec)},
		{"judge", e.Judge},
		{"attacks left out", yes(e.NoAttacks)},
	}
	for _, server := range slices.Sorted(maps.Keys(e.Catalogs)) {
		all = append(all, Setting{"tools of " + server, strings.Join(slices.Sorted(slices.Values(e.Catalogs[server])), ", ")})
	}
	return append(all, e.Made...)
}

// trialsOfTask is how many trials that count the tasks have.
func (e Entry) trialsOfTask() string {
	fewest, most := 0, 0
	for i, t := range e.Tasks {
		_, counted := t.passed()
		if i == 0 {
			fewest = counted
		}
		fewest, most = min(fewest, counted), max(most, counted)
	}
	switch {
	case most == 0:
		return ""
	case fewest == most:
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d to %d", fewest, most)
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func seconds(s int64) string {
	if s == 0 {
		return ""
	}
	return (time.Duration(s) * time.Second).String()
}
