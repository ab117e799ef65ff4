package eval

import "github.com/waza-isolate/waza/internal/strictyaml"

// Hooks are commands around trials.
type Hooks struct {
	_ struct{} `unknown:"warn"`

	BeforeRun  []Hook `json:"before_run,omitempty" jsonschema:"commands before every trial's agent, ahead of before_task; on the host once, before the first trial"`
	BeforeTask []Hook `json:"before_task,omitempty" jsonschema:"commands before every trial's agent"`
	AfterTask  []Hook `json:"after_task,omitempty" jsonschema:"commands after every trial's agent"`
	AfterRun   []Hook `json:"after_run,omitempty" jsonschema:"commands after every trial's agent, behind after_task; on the host once, after the last trial"`
}

// Hook is a command that runs in the agent's box, or on the host.
type Hook struct {
	_ struct{} `unknown:"warn"`

	Command          string `json:"command" jsonschema:"what the shell runs"`
	WorkingDirectory string `json:"working_directory,omitempty" jsonschema:"where it starts, relative to the workspace; on the host to where waza was started"`
	ExitCodes        []int  `json:"exit_codes,omitempty" jsonschema:"exit codes that are no failure; default 0"`
	ErrorOnFail      bool   `json:"error_on_fail,omitempty" jsonschema:"have no agent started where it fails; of hooks before the agent"`
	Host             bool   `json:"host,omitempty" jsonschema:"run it on the host, which --allow-host-hooks has to allow; default false"`
}

// OnHost is the place of the first hook that runs on the host; empty where none does.
func (h *Hooks) OnHost() string {
	for _, hook := range h.all() {
		if hook.Host {
			return hook.at.String()
		}
	}
	return ""
}

// Accepted are the exit codes that are no failure.
func (h Hook) Accepted() []int {
	if len(h.ExitCodes) == 0 {
		return []int{0}
	}
	return h.ExitCodes
}

// placedHook is a hook and where it stands.
type placedHook struct {
	Hook
	at strictyaml.Path
}

// all are the hooks in the order in which they run.
func (h *Hooks) all() (all []placedHook) {
	if h == nil {
		return nil
	}
	for _, list := range []struct {
		key   string
		hooks []Hook
	}{{"before_run", h.BeforeRun}, {"before_task", h.BeforeTask}, {"after_task", h.AfterTask}, {"after_run", h.AfterRun}} {
		for i, hook := range list.hooks {
			all = append(all, placedHook{hook, strictyaml.Path{"hooks", list.key, i}})
		}
	}
	return all
}

func (l *loader) checkHooks() {
	for _, hook := range l.eval.Hooks.all() {
		if hook.WorkingDirectory != "" && !hook.Host && !isInside(hook.WorkingDirectory) {
			at := append(hook.at, "working_directory")
			l.doc.Problemf(at, "%s must be a directory in the workspace, relative and without leading out: hooks run in the trial's sandbox", at)
		}
	}
}
