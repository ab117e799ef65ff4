package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// planOutgoing is the plan of an eval whose agent and server s may reach some hosts.
func planOutgoing(local bool, agent, server []mcpconfig.Egress, env map[string]string) (*Trial, error) {
	e := &eval.Eval{Path: "eval.yaml", Local: local}
	e.Config.TrialsPerTask, e.Config.Executor = 1, "mock"
	e.Config.Isolation.Agent.Egress = agent
	e.Config.Isolation.EgressLimits = eval.EgressLimits{Connections: 2, Rate: 3, Bytes: "4k"}
	servers := map[string]mcpconfig.Server{
		"s": {Image: "i", Command: "serve", Egress: server, Env: env}, "quiet": {Image: "i", Command: "serve"},
	}
	trials, err := Plan(e, []eval.ResolvedTask{{ID: "x", Servers: servers}}, Choices{Run: "r", Lookup: lookup(map[string]string{"HOST": "hidden.example"}), Secrets: &secret.Set{}})
	if err != nil {
		return nil, err
	}
	return trials[0], nil
}

func TestPlanOfEgress(t *testing.T) {
	entries := []mcpconfig.Egress{{Host: "api.example:443"}, {Host: "${HOST}:80"}}
	trial, err := planOutgoing(false, entries[:1], entries, map[string]string{"NO_PROXY": "mine"})
	if err != nil {
		t.Fatal(err)
	}
	quiet, s := trial.Servers[0], trial.Servers[1]
	if len(s.Egress) != 2 || s.Egress[1].Name != "hidden.example" || len(trial.Agent.Egress) != 1 || quiet.Egress != nil {
		t.Errorf("planned %+v, %+v", trial.Agent.Egress, trial.Servers)
	}
	if trial.EgressLimits.Connections != 2 || trial.EgressLimits.Rate != 3 || trial.EgressLimits.Bytes != 4<<10 {
		t.Errorf("limits %+v", trial.EgressLimits)
	}
	text := trial.String()
	if strings.Contains(text, "hidden") || !strings.Contains(text, "egress api.example:443\n") || !strings.Contains(text, "egress ${HOST}:80\n") {
		t.Errorf("printed as\n%s", text)
	}
	env := s.withProxy().Env
	if env["NO_PROXY"] != "mine" || env["no_proxy"] != "s,localhost,127.0.0.1,::1,127.0.0.0/8" || env["HTTPS_PROXY"] != "http://127.0.3.254:3128" || len(quiet.withProxy().Env) != 0 {
		t.Errorf("environment %v", env)
	}
	agent := agentEnv(trial, sandbox.ContainerLayout(), nil)
	if !cmp.Equal(filter(agent, "no_proxy="), []string{"no_proxy=quiet,s,localhost,127.0.0.1,::1,127.0.0.0/8"}) {
		t.Errorf("the agent's environment %v", agent)
	}
}

// A server that is looked at reaches what it may as in a trial, and within the same limits.
func TestEgressOfInspections(t *testing.T) {
	e := &eval.Eval{Path: "eval.yaml"}
	e.Config.MCPServers = map[string]*mcpconfig.Server{
		"s": {Image: "i", Command: "serve", Egress: []mcpconfig.Egress{{Host: "api.example:443"}}},
	}
	e.Config.Isolation.EgressLimits = eval.EgressLimits{Connections: 2, Rate: 3, Bytes: "4k"}
	choices := Choices{Run: "r", Lookup: lookup(nil), Secrets: &secret.Set{}}
	plans, err := PlanInspections(e, []string{"s"}, choices)
	if err != nil {
		t.Fatal(err)
	}
	if want := (egress.Limits{Connections: 2, Rate: 3, Bytes: 4 << 10}); plans[0].EgressLimits != want || len(plans[0].Servers[0].Egress) != 1 {
		t.Errorf("limits %+v of %+v", plans[0].EgressLimits, plans[0].Servers[0].Egress)
	}
	e.Config.Isolation.EgressLimits.Bytes = "much"
	if _, err := PlanInspections(e, []string{"s"}, choices); err == nil {
		t.Error("limits that cannot be read are no error")
	}
}

func filter(list []string, prefix string) (found []string) {
	for _, one := range list {
		if strings.HasPrefix(one, prefix) {
			found = append(found, one)
		}
	}
	return found
}

func TestEgressToTheTrialItself(t *testing.T) {
	own := []mcpconfig.Egress{{Host: "quiet:443"}}
	for name, plan := range map[string]func() (*Trial, error){
		"agent":  func() (*Trial, error) { return planOutgoing(false, own, nil, nil) },
		"server": func() (*Trial, error) { return planOutgoing(false, nil, own, nil) },
	} {
		if _, err := plan(); err == nil || !strings.Contains(err.Error(), `"quiet" is a server of this trial`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEgressOnThisMachine(t *testing.T) {
	entries := []mcpconfig.Egress{{Host: "api.example:443"}}
	trial, err := planOutgoing(true, entries, entries, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"config.isolation.agent.egress", "config.isolation.egress_limits", `egress of server "s"`}
	reported := strings.Join(trial.NotEnforced, "\n")
	for _, one := range want {
		if !strings.Contains(reported, one) {
			t.Errorf("%q is not said to have no effect: %s", one, reported)
		}
	}
	if len(trial.Outgoing()) != 0 || trial.Servers[1].withProxy().Env != nil {
		t.Errorf("%+v", trial.Outgoing())
	}
}
