package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// GraderContainer is the container of a grader's program. It has no network, and the limits of
// the agent's container.
type GraderContainer struct {
	sandbox.Container
	Grader  string   `json:"grader"`
	Turn    int      `json:"turn,omitempty"`  // turn of the grader's checkpoint; 0 for none
	Command []string `json:"command"`         // for assertions, the interpreter
	Files   []File   `json:"files,omitempty"` // by path relative to the program's directory
	// Source is the source that Image is built from, and build says where it is; nil for none.
	Source *images.Source `json:"-"`
	build  *mcpconfig.Build
}

// graderPlanner plans the containers of graders' programs, and checks that what graders ask of
// servers is possible.
type graderPlanner struct {
	eval    *eval.Eval
	agent   sandbox.Container
	servers []Server
	choices Choices
}

// planAll plans the graders of a trial and of its checkpoints. It also returns settings that
// are not enforced without isolation.
func (p graderPlanner) planAll(graders []evidence.GraderSpec, checkpoints []eval.ResolvedCheckpoint) (all []GraderContainer, unenforced []string, err error) {
	all, unenforced, err = p.plan(graders)
	for _, c := range checkpoints {
		containers, more, errPlan := p.plan(c.Graders)
		for _, ask := range grading.Asks(c.Graders) {
			if errPlan == nil && ask.Kind == evidence.StepCall {
				errPlan = fmt.Errorf("grader %q asks a server, with which the agent still talks then; ask it in graders", ask.Grader)
			}
		}
		if errPlan != nil {
			return nil, nil, errors.Join(err, fmt.Errorf("checkpoint after turn %d: %w", c.AfterTurn, errPlan))
		}
		for _, container := range containers {
			container.Turn = c.AfterTurn
			all = append(all, container)
		}
		unenforced = append(unenforced, more...)
	}
	return all, unenforced, err
}

func (p graderPlanner) plan(graders []evidence.GraderSpec) (all []GraderContainer, unenforced []string, err error) {
	var errs []error
	for _, ask := range grading.Asks(graders) {
		var err error
		switch what := ask.What.(type) {
		case evidence.ProgramAsk:
			var container GraderContainer
			container, err = p.program(ask.Grader, what)
			all = append(all, container)
			if p.eval.Local && what.Image != "" {
				unenforced = append(unenforced, fmt.Sprintf("image of grader %q", ask.Grader))
			}
			if p.eval.Local && what.Build != nil {
				unenforced = append(unenforced, fmt.Sprintf("build of grader %q", ask.Grader))
			}
		case evidence.FileAsk:
			err = p.checkFileAsk(what)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("grader %q: %w", ask.Grader, err))
		}
	}
	return all, unenforced, errors.Join(errs...)
}

func (p graderPlanner) program(grader string, ask evidence.ProgramAsk) (g GraderContainer, err error) {
	g = GraderContainer{Container: p.agent, Grader: grader, Command: append([]string{ask.Command}, ask.Args...)}
	if ask.Language != "" {
		g.Command = []string{grading.Interpreter(ask.Language)}
	}
	if !p.eval.Local {
		if g.Source, err = sourceOf(p.eval, ask.Build, nil, p.choices); err != nil {
			return g, err
		}
		g.Image, g.build = g.Source.TagOr(imageOf(p.eval, ask)), ask.Build
		if g.Image != p.agent.Image {
			g.User = ""
		}
	}
	g.Files, err = filesOf(p.eval, ask.Files)
	return g, err
}

// imageOf returns the image that a program runs in.
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

// checkFileAsk returns an error if a grader reads files of a server that is not run here.
func (p graderPlanner) checkFileAsk(ask evidence.FileAsk) error {
	for _, s := range p.servers {
		if s.Name == ask.Server && s.Remote && !s.Mock.IsPlayed() {
			return fmt.Errorf("server %q is remote: it has no container to look for files in; ask it with calls", s.Name)
		}
	}
	return nil
}

// defaultJudgeSeconds is the default timeout of a judge's answer.
const defaultJudgeSeconds = 120

// planJudge returns the judge of a task, or nil if neither its graders nor its responder need
// one. Without config.judge, it is at the provider of the agent's models.
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

// impliedJudge returns a judge at the provider of the agent's models. If the agent has none,
// the provider is the one that the judge's model is named after, or else the first with an API
// key.
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

// gradersOf returns all graders of a task, including those of its checkpoints and attack.
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
