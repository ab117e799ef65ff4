package eval

import (
	"fmt"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// NoFaults is the value of [Options.Faults] that disables all faults, for example for a baseline.
const NoFaults = "none"

// faultsFile is a file that [Options.Faults] names.
type faultsFile struct {
	Faults []cassette.Fault `json:"faults" jsonschema:"faults of all tasks"`
}

// faults is a list of faults with its place in a file.
type faults struct {
	doc *strictyaml.Document // the file with the faults
	at  strictyaml.Path
	all []cassette.Fault
}

// readFaults returns the faults for tasks that declare none.
func readFaults(l *loader) faults {
	of := faults{l.doc, strictyaml.Path{"config", "faults"}, l.eval.Config.Faults}
	if name := l.opts.Faults; name != "" && name != NoFaults {
		doc, err := l.open(name)
		if err != nil {
			l.fail(err)
			return of
		}
		l.eval.MockFiles = append(l.eval.MockFiles, name)
		var file faultsFile
		doc.Decode(&file)
		of = faults{doc, strictyaml.Path{"faults"}, file.Faults}
	}
	return of
}

// check reports errors in faults, and compiles them. servers are the servers that they may name; declared
// holds those that are not mocks.
func (f faults) check(e *Eval, servers []string, declared map[string]mcpconfig.Server) {
	providers := slices.Sorted(maps.Keys(e.Config.Models))
	if len(providers) == 0 {
		providers = ModelKinds()
	}
	for i := range f.all {
		one, at := &f.all[i], f.at.With(i)
		if f.doc.Reported(at.With("fault")...) {
			continue
		}
		key, err := one.Compile()
		server, real := declared[one.Server]
		switch {
		case err != nil:
			if f.doc.Has(at.With(key)...) {
				f.doc.Problemf(at.With(key), "%s %s", at, flat(err))
			} else {
				f.doc.Problemf(at, "%s %s", at, flat(err))
			}
		case one.Server != "" && !slices.Contains(servers, one.Server):
			f.doc.Problemf(at.With("server"), "%s names %s", at, notDeclared(one.Server, servers))
		case one.Model != "" && !slices.Contains(providers, one.Model):
			f.doc.Problemf(at.With("model"), "%s names the provider %q, which is not in config.models; %s", at, one.Model, strictyaml.Suggest(one.Model, providers))
		case one.Kind == evidence.FaultKill && real && server.Transport() != mcpconfig.Stdio && (!e.Plays(cassette.Servers) || e.MissLive):
			f.doc.Problemf(at.With("fault"), "%s kills the process of a session, and server %q speaks HTTP and has none; use drop", at, one.Server)
		}
	}
}

// faultsOf returns the faults of the task with an id: its own or, failing that, the eval's, followed by those
// of the cassette.
func faultsOf(r resolver, id string) []cassette.Fault {
	of, at := r.loader.faults, strictyaml.Path{"faults"}
	own := faults{r.doc, at, r.task.Faults}
	own.check(r.eval, r.serverNames(), r.declare(r.doc, r.task.MCPServers))
	if r.opts.Faults == NoFaults {
		return nil
	}
	if r.opts.Faults == "" && r.doc.Has(at...) {
		of = own
	}
	all := slices.Clone(of.all)
	for _, kind := range []cassette.Kind{cassette.Servers, cassette.Models} {
		if !r.eval.Plays(kind) {
			continue
		}
		for _, name := range r.eval.Cassette.Names(kind) {
			if side, err := r.eval.Cassette.Side(kind, id, name); err == nil && side != nil { // an error is reported by the plan
				all = append(all, side.Faults(kind, name)...)
			}
		}
	}
	return all
}

// checkSideFaults returns an error if a side of a cassette has faults that its kind does not support.
func checkSideFaults(c *cassette.Cassette) error {
	for _, kind := range cassette.Kinds() {
		for name, side := range c.Sides[kind] {
			for _, f := range side.Faults(kind, name) {
				_, err := f.Compile()
				if kind != cassette.Servers && kind != cassette.Models {
					err = fmt.Errorf("is %s, and faults are of servers and models", f.Kind)
				}
				if err != nil {
					return fmt.Errorf("%s/%s: a fault %w", kind, name, err)
				}
			}
		}
	}
	return nil
}
