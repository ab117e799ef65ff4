package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/cmd/waza/scaffold"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/report/inspection"
	"github.com/waza-isolate/waza/runner"
)

// watchTime is how long each server is observed after it has answered.
const watchTime = 200 * time.Millisecond

// tried is a server whose tools were called to learn what tasks can assert.
type tried struct {
	inspection.Server
	says    string // its own name for itself
	tools   []catalog.Entry
	answers []scaffold.Answer
	failed  error // why it could not be inspected; nil if it was
}

// tryServers starts each server of an eval alone in a container and calls some of its tools; with the name of one,
// that one and those that read. set completes the inspection that does it.
func tryServers(ctx context.Context, s *state, command string, e *eval.Eval, tool string, set func(*runner.Inspection)) (all []tried, err error) {
	tries := map[string][]scaffold.Try{}
	q := runner.Inspection{
		ID: runner.NewID(command), Eval: e, Servers: slices.Sorted(maps.Keys(e.Config.MCPServers)), Source: "waza " + command,
		Isolated: true, Watch: watchTime, Patience: defaultPatience, Host: s.host(normal, formatDefault, false),
		Try: func(server string, listed catalog.Catalog, answered []inspection.Answered) (all []inspection.Exercise) {
			next := scaffold.Tries(listed, tool, reachesOut(e.Config.MCPServers[server]), answersTo(tries[server], answered))
			for _, try := range next {
				all = append(all, inspection.Exercise{What: inspection.Call, Name: try.Tool, Arguments: try.Arguments, Anew: try.Anew})
			}
			tries[server] = append(tries[server], next...)
			return all
		},
	}
	q.Dir = filepath.Join(".waza", "inspections", q.ID)
	set(&q)
	report, err := runner.Inspect(ctx, q)
	if err != nil {
		return nil, withExitCode(err)
	}
	for _, found := range report.Servers {
		one := tried{Server: found, says: found.Catalog.Server.Name}
		failed := found.Failed
		if !strings.HasPrefix(failed, fmt.Sprintf("MCP server %q ", found.Name)) {
			failed = fmt.Sprintf("server %q: %s", found.Name, failed)
		}
		switch {
		case found.Failed == "":
			one.tools = found.Catalog.Of(catalog.Tools).Entries
			one.answers = answersTo(tries[found.Name], found.Answers)
		case found.Evidence == "": // it was never started
			one.failed = &exitError{exitInfra, errors.New(failed)}
		default:
			one.failed = &exitError{exitInfra, fmt.Errorf("%s; its evidence is in %s", failed, filepath.Join(q.Dir, found.Evidence))}
		}
		all = append(all, one)
	}
	return all, nil
}

// answersTo returns what came of tries.
func answersTo(tries []scaffold.Try, answered []inspection.Answered) (all []scaffold.Answer) {
	for i, a := range answered {
		all = append(all, scaffold.Answer{Try: tries[i], Outcome: a.Outcome, Raw: a.Answer})
	}
	return all
}

// reachesOut reports whether calls of a server may change something outside of its container.
func reachesOut(s *mcpconfig.Server) bool { return s.URL != "" || len(s.Egress) > 0 }
