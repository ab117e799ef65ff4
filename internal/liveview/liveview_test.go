package liveview_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/internal/liveview"
	"github.com/waza-isolate/waza/internal/termtest"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/trial"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func ended(task string, number int, class evidence.Class, message string) runner.Update {
	return runner.Update{Task: task, Number: number, Attempt: 1, Phase: evidence.PhaseDone, Result: &runner.Result{
		Trial:    evidence.Trial{Started: noon, Ended: at(31)},
		Verdicts: evidence.Verdicts{Class: class, Reason: evidence.ReasonGraders, Message: message},
	}}
}

func entered(task string, number int, phase evidence.Phase) runner.Update {
	return runner.Update{Task: task, Number: number, Attempt: 1, Phase: phase}
}

func calling(task string, number int, c trial.Calling) runner.Update {
	return runner.Update{Task: task, Number: number, Attempt: 1, Phase: evidence.PhaseAgent, Call: &c}
}

// scenes are states of a run of 16 trials, 4 at once.
func scenes() map[string]*liveview.State {
	all := map[string]*liveview.State{}
	begun := liveview.New(16, 4, noon)
	all["nothing yet"] = begun

	early := liveview.New(16, 4, noon)
	early.Update(entered("price", 1, evidence.PhaseStart), at(0))
	early.Update(entered("price", 1, evidence.PhaseAgent), at(1))
	early.Update(entered("a-task-with-a-rather-long-name-of-its-own", 12, evidence.PhaseProbe), at(1))
	again := entered("reserve", 1, evidence.PhaseStart)
	early.Update(again, at(2))
	again.Attempt = 2
	early.Update(again, at(3))
	all["early"] = early

	calls := liveview.New(16, 4, noon)
	for number := range 4 {
		calls.Update(entered("price", number+1, evidence.PhaseStart), at(0))
		calls.Update(entered("price", number+1, evidence.PhaseAgent), at(1))
	}
	calls.Update(calling("price", 1, trial.Calling{Server: "inventory", Tool: "find_item", Open: 1, Calls: 1}), at(2))
	calls.Update(calling("price", 2, trial.Calling{Server: "inventory", Tool: "find_item", Open: 3, Calls: 12345}), at(2))
	calls.Update(calling("price", 3, trial.Calling{Server: "inventory", Tool: "find_item", Calls: 7}), at(2))
	calls.Update(calling("price", 4, trial.Calling{Server: "在庫", Tool: "探す\x1b[2J\u202e\t::error::" + strings.Repeat("す", 60), Open: 1, Calls: 2}), at(2))
	calls.Update(entered("price", 3, evidence.PhaseCollect), at(3))
	all["calls"] = calls

	late := liveview.New(16, 4, noon)
	for number := range 9 {
		class := []evidence.Class{evidence.ClassPass, evidence.ClassPass, evidence.ClassFail, evidence.ClassInfra, evidence.ClassTimeout}[number%5]
		late.Update(entered("price", number+1, evidence.PhaseStart), at(0))
		late.Update(ended("price", number+1, class, ""), at(25))
	}
	late.Update(entered("reserve", 1, evidence.PhaseAgent), at(20))
	all["late"] = late

	stopping := liveview.New(16, 4, noon)
	stopping.Update(entered("price", 1, evidence.PhaseAgent), at(0))
	stopping.Update(entered("price", 2, evidence.PhaseAgent), at(0))
	stopping.Stopping = true
	all["stopping"] = stopping

	names := liveview.New(16, 4, noon)
	for i, task := range []string{"reserve-a-part-of-the-main-warehouse-alpha", "reserve-a-part-of-the-main-warehouse-beta", "reserve-a-part-of-the-main-warehouse-which-closes-today", "reserve-a-part-of-the-next-warehouse-alpha"} {
		names.Update(entered(task, 9+i, evidence.PhaseAgent), at(0))
		names.Update(calling(task, 9+i, trial.Calling{Server: "inventory", Tool: "find_item", Open: 1, Calls: 1}), at(2))
	}
	all["names"] = names

	many := liveview.New(1000, 64, noon)
	for number := range 64 {
		many.Update(entered("price", number+1, evidence.PhaseAgent), at(number))
	}
	all["many"] = many
	return all
}

// TestFrames compares frames with golden files, and checks that every line is shorter than
// the width of the terminal.
func TestFrames(t *testing.T) {
	t.Parallel()
	for name, state := range scenes() {
		for _, columns := range []int{20, 40, 80, 200} {
			size := liveview.Size{Columns: columns, Rows: 12}
			plain := state.Frame(at(75), size, terminal.Style{})
			golden.Check(t, "testdata/"+fmt.Sprintf("%s-%d.golden", strings.ReplaceAll(name, " ", "-"), columns), strings.Join(plain, "\n")+"\n")
			for _, line := range plain {
				if text.Columns(line) >= columns || strings.ContainsAny(line, "\x1b\t\n") {
					t.Errorf("%s in %d: %q takes %d", name, columns, line, text.Columns(line))
				}
			}
			coloured := state.Frame(at(75), size, coloured())
			if diff := cmp.Diff(plain, strip(t, coloured)); diff != "" {
				t.Errorf("%s in %d: colours change what is said: %s", name, columns, diff)
			}
			if len(plain) > 8 {
				t.Errorf("%s: %d lines of 12", name, len(plain))
			}
		}
	}
	coloured := scenes()["late"].Frame(at(75), liveview.Size{Columns: 80, Rows: 12}, coloured())
	golden.Check(t, "testdata/late-80-coloured.golden", strings.ReplaceAll(strings.Join(coloured, "\n"), "\x1b", "ESC")+"\n")
}

// TestNamesThatDifferInside has tasks with the same ends: what tells them apart stays.
func TestNamesThatDifferInside(t *testing.T) {
	t.Parallel()
	for _, where := range []int{0, 8, 12, 20, 25, 39} {
		s := liveview.New(2, 2, noon)
		for _, letter := range []string{"X", "Y"} {
			task := strings.Repeat("a", where) + letter + strings.Repeat("b", 40-where)
			s.Update(entered(task, 1, evidence.PhaseAgent), at(0))
			s.Update(calling(task, 1, trial.Calling{Server: "inventory", Tool: "find_item_by_its_number", Open: 1}), at(2))
		}
		lines := s.Frame(at(75), liveview.Size{Columns: 70, Rows: 12}, terminal.Style{})
		if !strings.Contains(lines[0], "X") || !strings.Contains(lines[1], "Y") || !strings.Contains(lines[0], "…") {
			t.Errorf("at %d:\n%s", where, strings.Join(lines, "\n"))
		}
	}
}

// strip shows lines on a terminal.
func strip(t *testing.T, lines []string) []string {
	t.Helper()
	var all []string
	for _, line := range lines {
		term := termtest.New(1000, 1)
		_, _ = term.Write([]byte(line))
		if len(term.Unknown) > 0 {
			t.Errorf("%q", term.Unknown)
		}
		text := term.Text()
		all = append(all, text+strings.Repeat(" ", len(line)-len(strings.TrimRight(line, " "))))
	}
	return all
}

func TestPulse(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"nothing yet": "at work after 75s: no trial yet; 0 of 16 done",
		"calls":       "at work after 75s: price/1 (calling inventory.find_item, 75s), price/2 (calling inventory.find_item, and 2 more, 75s), price/3 (collecting, 75s), 1 more; 0 of 16 done",
		"late":        "at work after 75s: reserve/1 (agent at work, 55s); 9 of 16 done, less than 1 min left",
		"stopping":    "stopping after 75s: price/1 (agent at work, 75s), price/2 (agent at work, 75s); 0 of 16 done",
	} {
		if got := scenes()[name].Pulse(at(75)); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestEnded(t *testing.T) {
	t.Parallel()
	u := ended("price", 3, evidence.ClassFail, "said \x1b[31mred\u202e and ::error:: of it\nmore")
	if got, want := liveview.Ended(u, true, terminal.Style{}), `fail        price/3  31.0s  said \u{1B}[31mred\u{202E} and ::error:: of it`; got != want {
		t.Errorf("%q", got)
	}
	if got, want := liveview.Ended(u, false, terminal.Style{}), "fail        price/3  31.0s"; got != want {
		t.Errorf("without the reason %q", got)
	}
	u.Result.Verdicts.Message = strings.Repeat("\u202e", 300)
	if got := liveview.Ended(u, true, terminal.Style{}); text.Columns(got) > 300 {
		t.Errorf("%d columns: %q", text.Columns(got), got)
	}
	u.Result.Verdicts.Message = ""
	if got, want := liveview.Ended(u, true, terminal.Style{}), "fail        price/3  31.0s"; got != want {
		t.Errorf("%q", got)
	}
	u.Result.Verdicts.Message = "failed: a, b"
	u.Result.Verdicts.Verdicts = []evidence.Verdict{{Result: evidence.VerdictPass, Feedback: "Fine."}, {Name: "a", Result: evidence.VerdictFail, Feedback: "No call. At all.\nNone."}, {Name: "b", Result: evidence.VerdictFail, Feedback: "None."}}
	if got, want := liveview.Ended(u, true, terminal.Style{}), "fail        price/3  31.0s  a: No call. At all. And 1 other grader did not pass."; got != want {
		t.Errorf("%q", got)
	}
	u.Result.Verdicts.Class, u.Result.Verdicts.Reason = evidence.ClassTimeout, evidence.ReasonTimeLimit
	if got, want := liveview.Ended(u, true, terminal.Style{}), "timeout     price/3  31.0s  failed: a, b"; got != want {
		t.Errorf("%q", got)
	}
	u.Result.Verdicts.Verdicts = nil
	u.Phase, u.Result.Verdicts.Class, u.Result.Verdicts.Reason = evidence.PhaseAgain, evidence.ClassInfra, evidence.ReasonServer
	u.Result.Verdicts.Message = strings.Repeat("m", 10_000)
	if got := liveview.Ended(u, true, coloured()); len(got) > 600 || !strings.HasPrefix(got, "\x1b[33mincomplete (server)\x1b[0m") || !strings.HasSuffix(got, "…; trying again") {
		t.Errorf("%q", got)
	}
}

// coloured returns the style of a terminal in an empty environment.
func coloured() terminal.Style {
	return terminal.StyleFor(true, func(string) (string, bool) { return "", false })
}
