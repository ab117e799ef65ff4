package evidence

// Phase is where a trial is in its life.
type Phase string

const (
	PhaseStart   Phase = "starting"
	PhaseProbe   Phase = "probing servers"
	PhaseAgent   Phase = "agent at work"
	PhaseCollect Phase = "collecting"
	PhaseJudge   Phase = "asking the judge"
	PhaseAgain   Phase = "once more" // it ended as infra, or failed and has attempts left
	PhaseDone    Phase = "done"
)
