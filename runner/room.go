package runner

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// largeFiles make room where there is none for a trial's record.
var largeFiles = []string{evidence.BeforeFile, evidence.WorkspaceFile, evidence.StdoutFile, evidence.StderrFile, evidence.FramesFile}

// onceEach is an error's lines without those that came before: of one cause several
// writers may complain.
func onceEach(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// writeRecord writes trial.json. Where the disk is full the trial is ours to blame
// for, and its evidence, of which a part is lost already, makes room for that to be
// said.
func (tr *trialRun) writeRecord(dir evidence.Dir) error {
	err := dir.WriteTrial(tr.redacted())
	if !evidence.DiskFull(err) {
		return err
	}
	if tr.record.Class.OfAgent() {
		tr.blame(evidence.ClassInfra, evidence.ReasonRunner, err.Error())
	}
	for _, name := range largeFiles {
		if os.Remove(tr.file(name)) == nil {
			tr.gap(name, errors.New("removed to make room"))
		}
	}
	if len(tr.record.FinalOutput) > 0 {
		tr.record.FinalOutput = ""
		tr.gap(evidence.GapFinalOutput, errors.New("removed to make room"))
	}
	return dir.WriteTrial(tr.redacted())
}
