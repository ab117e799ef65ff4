package runner

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/docker/go-units"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/sandbox"
)

// GraderBox is the container of a grader's program, without any network. It has the
// limits of the agent's.
type GraderBox struct {
	sandbox.Box
	Grader  string   `json:"grader"`
	Turn    int      `json:"turn,omitempty"`  // of the checkpoint that the grader is of; 0 for none
	Command []string `json:"command"`         // of assertions, their interpreter
	Files   []File   `json:"files,omitempty"` // by path in the program's directory
}

// graderBox is the box of a grader of the trial's own.
func (t *Trial) graderBox(grader string) (GraderBox, bool) {
	i := slices.IndexFunc(t.GraderBoxes, func(b GraderBox) bool { return b.Grader == grader && b.Turn == 0 })
	if i < 0 {
		return GraderBox{}, false
	}
	return t.GraderBoxes[i], true
}

// planGraders decides where programs of graders run, and holds that what graders ask
// of servers can be had.
func (t *Trial) planGraders(e *eval.Eval) error {
	var errs []error
	for _, ask := range grading.Asks(t.allGraders()) {
		var err error
		switch what := ask.What.(type) {
		case evidence.ProgramAsk:
			err = t.planProgram(e, ask.Grader, what)
		case evidence.FileAsk:
			err = t.checkFileAsk(what)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("grader %q: %w", ask.Grader, err))
		}
	}
	return errors.Join(errs...)
}

func (t *Trial) planProgram(e *eval.Eval, grader string, ask evidence.ProgramAsk) error {
	g := GraderBox{Box: t.Agent.Box, Grader: grader, Command: append([]string{ask.Command}, ask.Args...)}
	if ask.Language != "" {
		g.Command = []string{interpreter(ask.Language)}
	}
	if t.Isolated() {
		g.Image = imageOf(e, ask)
		if g.Image != t.Agent.Image {
			g.User = ""
		}
	} else if ask.Image != "" {
		t.NotEnforced = append(t.NotEnforced, fmt.Sprintf("image of grader %q", grader))
	}
	sources, err := eval.Sources(e, ask.Files)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		source := sources[name]
		g.Files = append(g.Files, File{eval.WorkspaceFile{Path: name, Source: &source}})
	}
	t.GraderBoxes = append(t.GraderBoxes, g)
	return nil
}

// interpreter is the program that evaluates assertions of a language.
func interpreter(language string) string {
	if language == grading.JavaScript {
		return "node"
	}
	return "python3"
}

// imageOf is the image that a program runs in.
func imageOf(e *eval.Eval, ask evidence.ProgramAsk) string {
	isolation := e.Config.Isolation
	switch ask.Language {
	case grading.Python:
		return cmp.Or(ask.Image, isolation.PyPIImage, images.DefaultPyPI)
	case grading.JavaScript:
		return cmp.Or(ask.Image, isolation.NPMImage, images.DefaultNPM)
	}
	return cmp.Or(ask.Image, isolation.Agent.Image, images.Tools)
}

// checkFileAsk refuses to look for files where there is no container.
func (t *Trial) checkFileAsk(ask evidence.FileAsk) error {
	if !t.Isolated() {
		return fmt.Errorf("files of server %q are in its container: they need --isolate", ask.Server)
	}
	for _, s := range t.Servers {
		if s.Name == ask.Server && s.Remote {
			return fmt.Errorf("server %q is remote: it has no container to look for files in; ask it with calls", s.Name)
		}
	}
	return nil
}

func (g GraderBox) describe(b io.Writer, isolated bool) {
	line := func(format string, args ...any) { fmt.Fprintf(b, "              "+format+"\n", args...) }
	if isolated {
		line("%s, without a network", g.Box)
	} else {
		line("a process of this machine, beside a copy of the workspace")
	}
	line("command %q", g.Command)
	for _, f := range g.Files {
		line("file %s, %s", f.Path, units.BytesSize(float64(f.Size())))
	}
}
