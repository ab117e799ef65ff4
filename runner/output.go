package runner

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	// maxFinal is how many bytes a final output may have. It stands in trial.json
	// and in the results.
	maxFinal = 16 << 20
)

// output keeps the beginning of one of the agent's outputs. Writing to it never
// fails: what cannot be kept is no reason to hold the agent up.
type output struct {
	name  string
	limit int64        // bytes
	flood func()       // called whenever more has come
	acted *atomic.Bool // set when something comes; nil where that tells nothing
	file  io.WriteCloser
	head  *bytes.Buffer // the final output; nil where that is not here
	size  int64         // bytes that came
	err   error         // the first one of the file
	share *bounded.Budget
	spent bool // something did not fit into the share
}

// isOver says whether more came than may. It is to be asked when the output is at
// its end.
func (o *output) isOver() bool { return defence.BoundedOutput && o.size > o.limit }

// openOutputs makes the files of the agent's outputs. Stdout is kept in memory
// too where it is the final output.
func (tr *trialRun) openOutputs() (stdout, stderr *output, err error) {
	limit := tr.plan.Agent.OutputLimit()
	share := tr.shares.agent
	stdout, stderr = &output{name: "stdout", limit: limit, share: share}, &output{name: "stderr", limit: limit, share: share}
	stdout.acted = &tr.acted
	if cmp.Or(tr.plan.Agent.Output, plan.OutputStdout) == plan.OutputStdout {
		stdout.head = &bytes.Buffer{}
	}
	if stdout.file, err = tr.rec.Text(evidence.StdoutFile); err != nil {
		return nil, nil, err
	}
	if stderr.file, err = tr.rec.Text(evidence.StderrFile); err != nil {
		return nil, nil, errors.Join(err, stdout.file.Close())
	}
	return stdout, stderr, nil
}

func (o *output) Write(p []byte) (int, error) {
	if o.acted != nil {
		o.acted.Store(true)
	}
	kept := p
	if defence.BoundedOutput {
		kept = upTo(p, o.limit-o.size)
		o.spent = o.spent || !o.share.Take(int64(len(kept)))
	}
	if o.head != nil && !o.spent {
		o.head.Write(upTo(p, maxFinal-o.size))
	}
	if o.err == nil && !o.spent {
		_, o.err = o.file.Write(kept)
	}
	o.size += int64(len(p))
	if o.isOver() || o.spent {
		o.flood()
	}
	return len(p), nil
}

// upTo is the first n bytes of p, or all that there are.
func upTo(p []byte, n int64) []byte { return p[:max(0, min(n, int64(len(p))))] }

func (o *output) close() error { return errors.Join(o.err, o.file.Close()) }

// keepOutput takes the final output from stdout, where it comes from there, and
// says what of the outputs was not kept.
func (tr *trialRun) keepOutput(stdout, stderr *output) {
	for _, o := range []*output{stdout, stderr} {
		if o.isOver() {
			message := fmt.Sprintf("only the first %d of %d bytes of %s are kept", o.limit, o.size, o.name)
			tr.rec.Event(evidence.Event{Kind: "limit", Where: sandbox.Agent, Message: message})
		}
		if o.spent {
			tr.rec.Event(evidence.Event{Kind: "limit", Where: sandbox.Agent, Message: fmt.Sprintf("%s is cut off where the agent's share of the evidence, %d bytes, is full", o.name, o.share.Max())})
		}
	}
	if stdout.head == nil {
		return
	}
	tr.record.FinalOutput = stdout.head.String()
	if stdout.size > maxFinal {
		tr.outputTooLarge()
	}
}

// outputTooLarge blames the agent: graders cannot judge half an output.
func (tr *trialRun) outputTooLarge() {
	tr.gap(evidence.GapFinalOutput, fmt.Errorf("only the first %d bytes are kept", maxFinal))
	tr.blame(evidence.ClassAgentError, evidence.ReasonOutput, fmt.Sprintf("the agent's final output is larger than %d bytes", maxFinal))
}
