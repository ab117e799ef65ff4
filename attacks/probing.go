package attacks

import "github.com/waza-isolate/waza/runner/certificate"

// probeAttacks are those that every run's certificate is made of. Here they are carried
// out by the agent and by a server of one trial, which are started as any other, while
// other trials run.
func probeAttacks() []Attack {
	first := certificate.Names()[0]
	var all []Attack
	for _, name := range certificate.Names() {
		a := Attack{
			Name: name, As: Both, Tries: certificate.Tries(name), Promise: HostHolds,
			Without: Defence{Name: "that of " + name, Kept: "TestAttacksGetOut in containers takes it out"},
			Won:     ArrivedOrSaidSo, Tried: Told,
		}
		if name != first {
			a.In = first
		}
		all = append(all, a)
	}
	return all
}
