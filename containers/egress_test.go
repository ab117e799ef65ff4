package containers

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// Names that a container may reach are at its own loopback, and no other container knows them.
func TestNamesOfEgress(t *testing.T) {
	allowed, problems := mcpconfig.ReadEgress([]mcpconfig.Egress{{Host: "api.example"}, {Host: "10.0.0.0/8:1"}, {Host: "*.wild.example:443"}, {Host: "api.example:8443"}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	trial := &sandbox.Spec{Containers: []sandbox.ContainerSpec{sandbox.AgentContainer(sandbox.Container{}, "tmpfs", "{}")}}
	addServer(trial, "s0", sandbox.Container{})
	addServer(trial, "s1", sandbox.Container{})
	trial.Containers[0].Outside, trial.Containers[1].Outside = egress.Names(allowed), egress.Names(allowed)
	at := func(text string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(text)} }
	localhost := at("127.0.0.1")
	for ctr, want := range map[string]map[string][]netip.Addr{
		"s0":          {"localhost": localhost, "api.example": at("127.0.3.1"), "*.wild.example": at("127.0.3.2")},
		"s1":          {"localhost": localhost},
		sandbox.Agent: {"localhost": localhost, "api.example": at("127.0.3.1"), "*.wild.example": at("127.0.3.2"), "s0": at("127.0.1.1"), "s1": at("127.0.1.1")},
	} {
		if diff := cmp.Diff(want, guests.Names(trial, ctr, guests.Airtight), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ctr, diff)
		}
	}
	subnet := addresses{netip.MustParsePrefix("10.213.0.0/29")}
	for _, network := range []string{"n", ""} {
		for ctr, want := range map[string]int{sandbox.Agent: 3, "s0": 1, "s1": 0} {
			hosts := (trialPlan{network: network}).withAddress(containerPlan{ContainerSpec: sandbox.ContainerSpec{Name: ctr}}, trial, subnet).host.ExtraHosts
			if len(hosts) != want || want > 0 && !slices.Contains(hosts, "api.example:127.0.3.1") {
				t.Errorf("on network %q the hosts of %s are %q", network, ctr, hosts)
			}
		}
	}
}
