package plan

import (
	"fmt"
	"io"
	"slices"

	"github.com/waza-isolate/waza/eval"
)

// Hooks are commands that run in the agent's container, or on the host, before the agent starts and
// after it ended; or those of a run, before its first trial and after its last.
type Hooks struct {
	Before []eval.Hook `json:"before,omitempty"`
	After  []eval.Hook `json:"after,omitempty"`
}

// planHooks gives each trial the hooks of the run too: it has a sandbox of its own. Those of the
// run on the host are not a trial's.
func planHooks(h *eval.Hooks) *Hooks {
	if h == nil {
		return nil
	}
	planned := &Hooks{Before: slices.Concat(hooksOn(h.BeforeRun, false), h.BeforeTask), After: slices.Concat(h.AfterTask, hooksOn(h.AfterRun, false))}
	if len(planned.Before)+len(planned.After) == 0 {
		return nil
	}
	return planned
}

// RunHooks are those of the run on the host.
func RunHooks(h *eval.Hooks) Hooks {
	if h == nil {
		return Hooks{}
	}
	return Hooks{Before: hooksOn(h.BeforeRun, true), After: hooksOn(h.AfterRun, true)}
}

func hooksOn(all []eval.Hook, host bool) []eval.Hook {
	return slices.DeleteFunc(slices.Clone(all), func(h eval.Hook) bool { return h.Host != host })
}

// OnHost says whether one of them runs on the host.
func (h *Hooks) OnHost() bool {
	return h != nil && len(hooksOn(h.Before, true))+len(hooksOn(h.After, true)) > 0
}

func (h *Hooks) describe(b io.Writer) {
	if h == nil {
		return
	}
	for _, hook := range h.Before {
		fmt.Fprintf(b, "  hook        before the agent%s: %q\n", whereOf(hook), hook.Command)
	}
	for _, hook := range h.After {
		fmt.Fprintf(b, "  hook        after the agent%s: %q\n", whereOf(hook), hook.Command)
	}
}

func whereOf(hook eval.Hook) string {
	if hook.Host {
		return ", on the host"
	}
	return ""
}
