package plan

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

// GraderContainer is the container of a grader's program, without any network. It has the
// limits of the agent's.
type GraderContainer struct {
	sandbox.Container
	Grader  string   `json:"grader"`
	Turn    int      `json:"turn,omitempty"`  // of the checkpoint that the grader is of; 0 for none
	Command []string `json:"command"`         // of assertions, their interpreter
	Files   []File   `json:"files,omitempty"` // by path in the program's directory
}

// GraderContainerOf is the container of a grader of the trial's own.
func (t *Trial) GraderContainerOf(grader string) (GraderContainer, bool) {
	i := slices.IndexFunc(t.GraderContainers, func(b GraderContainer) bool { return b.Grader == grader && b.Turn == 0 })
	if i < 0 {
		return GraderContainer{}, false
	}
	return t.GraderContainers[i], true
}

// planGraders decides where programs of graders run, and holds that what graders ask
// of servers can be had.
func (t *Trial) planGraders(e *eval.Eval) error {
	var errs []error
	for _, ask := range grading.Asks(t.AllGraders()) {
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
	g := GraderContainer{Container: t.Agent.Container, Grader: grader, Command: append([]string{ask.Command}, ask.Args...)}
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
	t.GraderContainers = append(t.GraderContainers, g)
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

func (g GraderContainer) describe(b io.Writer, isolated bool) {
	line := func(format string, args ...any) { fmt.Fprintf(b, "              "+format+"\n", args...) }
	if isolated {
		line("%s, without a network", g.Container)
	} else {
		line("a process of this machine, beside a copy of the workspace")
	}
	line("command %q", g.Command)
	for _, f := range g.Files {
		line("file %s, %s", f.Path, units.BytesSize(float64(f.Size())))
	}
}

// defaultJudgeSeconds is how long a judge may take for one answer.
const defaultJudgeSeconds = 120

// planJudge is the judge of a task whose graders ask one, or whose agent a model answers; else
// nil. Without config.judge
// it is at the provider of the agent's models.
func planJudge(e *eval.Eval, task eval.ResolvedTask, models *Models, lookup func(string) (string, bool)) (*evidence.Judge, error) {
	if task.Responder == nil && !grading.NeedJudge(gradersOf(task)) {
		return nil, nil
	}
	declared := e.Config.Judge
	if declared == nil {
		var err error
		if declared, err = impliedJudge(e, models, lookup); err != nil {
			return nil, err
		}
	}
	return &evidence.Judge{
		BaseURL: declared.BaseURL, APIKeyEnv: declared.APIKeyEnv, Model: declared.Model, Override: e.Config.JudgeModel,
		TimeoutSeconds: cmp.Or(declared.TimeoutSeconds, defaultJudgeSeconds),
		MaxTokens:      declared.MaxTokens, Temperature: declared.Temperature, Effort: e.Config.JudgeEffort,
	}, nil
}

// impliedJudge is at the provider of the agent's models; where the agent asks none, at the
// one whose name the judge's model bears, else at the first whose key is there.
func impliedJudge(e *eval.Eval, models *Models, lookup func(string) (string, bool)) (*eval.Judge, error) {
	config := e.Config
	p := Provider{Kind: eval.KindOfModel(cmp.Or(config.JudgeModel, config.Model))}
	switch {
	case models != nil:
		p = models.chosen()
	case p.Kind == "":
		p.Kind = eval.KindOpenAI
		for _, kind := range []string{eval.KindOpenAI, eval.KindAnthropic, eval.KindGoogle} {
			_, variable := eval.ModelDefaults(kind)
			if key, _ := lookup(variable); key != "" {
				p.Kind = kind
				break
			}
		}
	}
	own, variable := eval.ModelDefaults(p.Kind)
	chat := eval.ChatDefault(p.Kind)
	switch {
	case p.Script != "" || chat == "" || len(p.Headers) > 0 || p.BaseURL != "" && p.BaseURL != own && p.Kind != eval.KindOpenAI:
		return nil, fmt.Errorf("a grader asks a model, and the provider %q of the agent's speaks no chat completions for it; give the eval config.judge with base_url and model", p.Name)
	case p.BaseURL != "" && p.Kind == eval.KindOpenAI:
		chat, variable = p.BaseURL, p.APIKeyEnv
	case p.APIKeyEnv != "":
		variable = p.APIKeyEnv
	}
	model := config.Model
	if models != nil {
		model = models.Model
	}
	return &eval.Judge{BaseURL: chat, APIKeyEnv: variable, Model: model}, nil
}

// gradersOf are those of a task, of its checkpoints and of its attack's success.
func gradersOf(task eval.ResolvedTask) []evidence.GraderSpec {
	all := slices.Clone(task.Graders)
	for _, c := range task.Checkpoints {
		all = append(all, c.Graders...)
	}
	if task.Attack != nil {
		all = append(all, task.Attack.Success...)
	}
	return all
}

// describeJudge tells of the judge; its key is nowhere in a plan.
func (t *Trial) describeJudge() string {
	j := t.Judge
	key := "without a key"
	if j.APIKeyEnv != "" {
		key = "the key in $" + j.APIKeyEnv
	}
	model := cmp.Or(j.Override, j.Model, "the graders' models")
	return fmt.Sprintf("%s at %s, %s, an answer within %ds", model, j.BaseURL, key, j.TimeoutSeconds)
}

// planCheckpoints decides what the trial is graded by between its turns.
func (t *Trial) planCheckpoints(e *eval.Eval, checkpoints []eval.ResolvedCheckpoint) error {
	t.Checkpoints = checkpoints
	for _, c := range checkpoints {
		at := *t
		at.Graders, at.Attack, at.GraderContainers = c.Graders, nil, nil
		if err := at.planGraders(e); err != nil {
			return fmt.Errorf("checkpoint after turn %d: %w", c.AfterTurn, err)
		}
		for _, ask := range grading.Asks(c.Graders) {
			if ask.Kind == evidence.StepCall {
				return fmt.Errorf("checkpoint after turn %d: grader %q asks a server, with which the agent still talks then; ask it in graders", c.AfterTurn, ask.Grader)
			}
		}
		for _, container := range at.GraderContainers {
			container.Turn = c.AfterTurn
			t.GraderContainers = append(t.GraderContainers, container)
		}
		t.NotEnforced = at.NotEnforced
	}
	return nil
}

func (t *Trial) describeCheckpoints(b io.Writer) {
	for _, c := range t.Checkpoints {
		then := ""
		if c.Stop {
			then = ", which has to pass"
		}
		fmt.Fprintf(b, "  checkpoint  after turn %d%s\n", c.AfterTurn, then)
		for _, g := range c.Graders {
			fmt.Fprintf(b, "    grader    %s (%s)\n", g.Name, g.Type)
		}
	}
}

// planResponder holds that a model can play the user of the agent. It is asked where graders
// ask theirs.
func (t *Trial) planResponder() error {
	r := t.Agent.Responder
	if r == nil {
		return nil
	}
	own := *r
	if own.Model = cmp.Or(r.Model, t.Judge.Model); own.Model == "" {
		return errors.New("inputs.responder: nobody says which model plays the user; name it in inputs.responder.model or in config.model")
	}
	t.Agent.Responder = &own
	switch a := t.Agent; {
	case cmp.Or(a.Output, OutputStdout) == OutputStdout:
	case a.Output == OutputTranscript && a.Tells.From == "stdout":
	default:
		return errors.New("inputs.responder: what the agent says has to come on stdout, itself or as its transcript")
	}
	return nil
}

func describeResponder(b io.Writer, r *eval.Responder) {
	if r != nil {
		fmt.Fprintf(b, "  responder   %s, up to %d replies\n", r.Model, r.MaxFollowups)
	}
}
