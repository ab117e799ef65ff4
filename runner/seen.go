package runner

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/inspection"
)

// maxSeen is how many recent runs and inspections are searched for what servers list.
const maxSeen = 20

// seen is what a server listed in a run or an inspection.
type seen struct {
	tools []string
	dir   string
}

// lastSeen returns what a server of an eval listed in the last run of the eval here, or in the last
// inspection for it, and the tools that answered calls since then. It skips evidence that cannot be
// read.
func lastSeen(evalPath, evalName, server string) (last seen) {
	all, _ := filepath.Glob(filepath.Join(ownDir, "*", "[0-9]*"))
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(filepath.Base(b), filepath.Base(a)) }) // the newest first
	var answered []string
	for _, last.dir = range all[:min(len(all), maxSeen)] {
		for _, trial := range trialsFor(last.dir, evalPath, evalName, server) {
			calls, _ := trial.Calls()
			for _, c := range calls {
				if c.Server == server && c.Outcome == evidence.OutcomeOK {
					answered = append(answered, c.Tool)
				}
			}
			catalogs, err := trial.Catalogs()
			if err != nil {
				continue
			}
			for _, c := range catalogs {
				for _, tool := range c.Tools {
					if c.Server == server && c.Complete && !slices.Contains(last.tools, tool.Name) {
						last.tools = append(last.tools, tool.Name)
					}
				}
			}
		}
		if len(last.tools) > 0 {
			break
		}
	}
	if len(last.tools) > 0 {
		for _, tool := range answered {
			if !slices.Contains(last.tools, tool) {
				last.tools = append(last.tools, tool)
			}
		}
	}
	return last
}

// trialsFor returns the evidence on a server in a run of an eval, or in an inspection for it.
func trialsFor(dir, evalPath, evalName, server string) []evidence.Dir {
	if filepath.Base(filepath.Dir(dir)) == "inspections" {
		var report struct{ Source string }
		if err := evidence.ReadJSON(dir, inspection.File, &report); err == nil && (report.Source == "waza init" || report.Source == evalPath) {
			return []evidence.Dir{evidence.Dir(filepath.Join(dir, server))}
		}
		return nil
	}
	record, err := ReadRecord(dir)
	if err != nil || record.Eval.Name != evalName {
		return nil
	}
	kept := map[string]bool{} // of an earlier run
	for _, t := range record.Tasks {
		kept[t.ID] = t.Kept
	}
	trials, _ := Trials(dir)
	return slices.DeleteFunc(trials, func(trial evidence.Dir) bool { return kept[filepath.Base(filepath.Dir(string(trial)))] })
}
