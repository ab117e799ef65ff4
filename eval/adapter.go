package eval

import (
	"errors"
	"path/filepath"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// adapt finds the adapter of the eval's agent, where it has one.
func (l *loader) adapt(c Config) {
	if c.Executor != "command" {
		l.eval.Adapter, _ = adapter.Builtin(c.Executor)
		if l.eval.Adapter != nil && l.written == "command" {
			l.eval.Config.Isolation.Agent.Image = "" // it holds the command
		}
		return
	}
	if c.Agent == nil || c.Agent.Adapter == "" {
		return
	}
	at := strictyaml.Path{"config", "agent", "adapter"}
	l.aloneIn(*c.Agent)
	if !isInside(c.Agent.Adapter) {
		l.doc.Problemf(at, "%s must be the path of a file beside or below the eval, relative and without leading out", at)
		return
	}
	a, err := adapter.Load(filepath.Join(l.eval.Dir(), c.Agent.Adapter))
	var problems strictyaml.Errors
	switch {
	case errors.As(err, &problems):
		l.keep(err)
	case err != nil:
		l.doc.Problemf(at, "%v", unreadable(c.Agent.Adapter, err))
	}
	l.eval.Adapter = a
}

// aloneIn refuses what an adapter says already.
func (l *loader) aloneIn(a Agent) {
	for _, key := range []struct {
		name string
		set  bool
	}{
		{"command", a.Command != ""}, {"args", a.Args != nil}, {"continue", a.Continue != nil}, {"prompt", a.Prompt != ""},
		{"output", a.Output != ""}, {"skills", a.Skills != ""}, {"transcript", a.Transcript != nil},
	} {
		if key.set {
			at := strictyaml.Path{"config", "agent", key.name}
			l.doc.Problemf(at, "%s: the adapter says this already; give one of them", at)
		}
	}
}

// bringsImage reports whether the agent has an image without the eval's naming one. A
// broken adapter is reported as that alone.
func (l *loader) bringsImage(a *Agent) bool {
	if a == nil || a.Adapter == "" {
		return false
	}
	own := l.eval.Adapter
	return own == nil || own.Image != "" || len(own.NPM) > 0
}
