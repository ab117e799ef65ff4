package grading

import (
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// Grade judges a trial by its evidence in dir. It derives the calls and the tool lists of servers from the
// frames, compares the calls with the agent's transcript, and writes the results to calls.jsonl,
// catalogs.jsonl and narration.json. It does not write the verdicts.
//
// A trial that already has a class keeps it. Its graders run for the record, except if the class is infra,
// server_error or miss. Otherwise the class is fail if a grader failed or mocked commands were not called as
// expected, even if other graders could not judge. If a grader could not judge, the class is agent_error if
// the agent may have spoilt the evidence, and error if not. In all other cases it is pass.
//
// The result of the trial's attack does not affect the class unless the attack is a gate. A trial that would
// pass then fails if the attack succeeded, and is an error if that is unknown.
//
// Verdicts of checkpoints do not change the class, unless a checkpoint stopped the conversation: then its
// class is that of the trial.
//
// Grade returns an error only if it cannot access the directory. Missing evidence leads to an error verdict.
func Grade(dir evidence.Dir, trial evidence.Trial) (evidence.Verdicts, error) {
	if !trial.Class.OfAgent() {
		return evidence.Verdicts{Class: trial.Class, Reason: trial.Reason, Message: trial.Message, Verdicts: []evidence.Verdict{}}, nil
	}
	s, err := open(dir, trial)
	if err == nil {
		err = s.write()
	}
	if err != nil {
		return evidence.Verdicts{}, fmt.Errorf("grading: %w", err)
	}
	verdicts, spoilt := judge(trial.Graders, s)
	checkpoints, err := reached(dir, trial)
	if err != nil {
		return evidence.Verdicts{}, err
	}
	v := classify(trial, verdicts, spoilt)
	v.Score, v.Verdicts, v.Checkpoints = mean(v.Class, verdicts), verdicts, checkpoints
	v.Attack, spoilt = attacked(s)
	return gated(stopped(v, trial.Class != ""), trial.Attack, spoilt), nil
}

// judge runs graders. spoilt reports whether a grader could not judge because of the agent.
func judge(graders []evidence.GraderSpec, s *subject) (verdicts []evidence.Verdict, spoilt bool) {
	verdicts = []evidence.Verdict{}
	for _, spec := range graders {
		v, isSpoilt := verdict(spec, s)
		verdicts, spoilt = append(verdicts, v), spoilt || isSpoilt
	}
	return verdicts, spoilt
}

// unknown returns the class and the reason of a trial that graders could not judge.
func unknown(spoilt bool) (evidence.Class, evidence.Reason) {
	if spoilt {
		return evidence.ClassAgentError, evidence.ReasonOutput
	}
	return evidence.ClassError, evidence.ReasonEvidence
}

// reached grades the checkpoints of a trial, each by its own evidence.
func reached(dir evidence.Dir, trial evidence.Trial) ([]evidence.CheckpointVerdicts, error) {
	var all []evidence.CheckpointVerdicts
	for _, c := range trial.Checkpoints {
		at := dir.Checkpoint(c.AfterTurn)
		then, err := at.Trial()
		var v evidence.Verdicts
		if err == nil {
			v, err = Grade(at, then)
		}
		if err != nil {
			return nil, fmt.Errorf("checkpoint after turn %d: %w", c.AfterTurn, err)
		}
		all = append(all, evidence.CheckpointVerdicts{Checkpoint: c, Verdicts: v})
	}
	return all, nil
}

// stopped returns v with the class of the checkpoint that stopped the conversation, if there is one. Like a
// gate, the checkpoint decides the class unless the trial broke before it was graded.
func stopped(v evidence.Verdicts, broke bool) evidence.Verdicts {
	for _, c := range v.Checkpoints {
		if !c.Stopped || c.Class == evidence.ClassPass || broke || c.Class == evidence.ClassError && v.Class == evidence.ClassFail {
			continue
		}
		v.Class, v.Reason, v.Score = c.Class, c.Reason, 0
		v.Message = fmt.Sprintf("the conversation ended at the checkpoint after turn %d: %s", c.AfterTurn, c.Message)
	}
	return v
}

func classify(trial evidence.Trial, verdicts []evidence.Verdict, spoilt bool) evidence.Verdicts {
	if trial.Class != "" {
		return evidence.Verdicts{Class: trial.Class, Reason: trial.Reason, Message: trial.Message}
	}
	failed, unjudged := naming("failed: ", named(verdicts, evidence.VerdictFail)), naming("could not judge: ", named(verdicts, evidence.VerdictError))
	switch {
	case trial.Miscalled != "":
		return evidence.Verdicts{Class: evidence.ClassFail, Reason: evidence.ReasonGraders, Message: joined(trial.Miscalled, trial.Message)}
	case failed != "":
		return evidence.Verdicts{Class: evidence.ClassFail, Reason: evidence.ReasonGraders, Message: joined(failed, unjudged, trial.Message)}
	case unjudged != "":
		v := evidence.Verdicts{Message: joined(unjudged, trial.Message)}
		v.Class, v.Reason = unknown(spoilt)
		return v
	}
	return evidence.Verdicts{Class: evidence.ClassPass}
}

// naming returns said followed by the names, or "" if there are none.
func naming(said string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return said + strings.Join(names, ", ")
}

func named(verdicts []evidence.Verdict, result evidence.VerdictResult) []string {
	var names []string
	for _, v := range verdicts {
		if v.Result == result {
			names = append(names, v.Name)
		}
	}
	return names
}

// mean returns the weighted mean of the scores. Without verdicts it is 1 for a passed trial and 0 for any
// other.
func mean(class evidence.Class, verdicts []evidence.Verdict) float64 {
	var sum, weights float64
	for _, v := range verdicts {
		sum += v.Score * v.Weight
		weights += v.Weight
	}
	switch {
	case weights > 0:
		return sum / weights
	case class == evidence.ClassPass:
		return 1
	}
	return 0
}
