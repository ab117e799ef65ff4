package attacks

import (
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// held is a defense with the attacks of the probe that it stops.
type held struct {
	promise Promise
	without Defence
	attacks []string
}

func probeHeld() []held {
	return []held{
		{NoRoute, noHostAddress(), []string{probe.HostTCP, probe.BridgeTCP}},
		{NoRoute, filter(), []string{probe.BroadcastUDP, probe.MulticastUDP, probe.DeviceUDP, probe.UnicastIfUDP, probe.PktinfoUDP, probe.Vsock}},
		{NoRoute, filterAndNoHost(), []string{probe.DeviceTCP, probe.HostUDP, probe.Ping}},
		{NoRoute, noIPv6(), []string{probe.HostIPv6}},
		{NoRoute, privileges(), []string{probe.RawSocket, probe.PacketSocket, probe.ARP, probe.MarkedPackets, probe.Routes}},
		{NoRoute, elsewhere("a network for each trial", "two trials on one network"), []string{probe.Neighbour}},
		{AllRecorded, elsewhere("no network for servers, as the probe sees it", "servers on the network"), []string{probe.OtherServer}},
		{NoRoute, elsewhere("no route out of a task network", "a network around an address outside"), []string{probe.External, probe.Metadata}},
		{NoRoute, elsewhere("no reachable API of the engine", "the engine's port in a container"), []string{probe.EngineTCP}},
		{NamesStay, knownNames(), []string{probe.DNSForeign, probe.DNSEngine}},
		{NamesStay, noHostAddress(), []string{probe.DNSHost}},
		{HostHolds, filter(), []string{probe.UserNamespace, probe.Keyring, probe.PerfEvents, probe.IOUring}},
		{HostHolds, privileges(), []string{probe.Mount, probe.Setuid, probe.KernelLog, probe.BPF, probe.MakeDevice, probe.ProcSys}},
		{HostHolds, writableRoot(), []string{probe.RootFiles}},
		{AllRecorded, ownFiles(), []string{probe.SharedFile}},
		{OthersGoOn, ownUsers(), []string{probe.SharedUser}},
		{OthersGoOn, smallBuffers(), []string{probe.MemoryTCP}},
		{HostHolds, nothingOfTheHost(), []string{probe.EngineSocket, probe.HostDevices, probe.Sysfs}},
		{HostHolds, undumpable(), []string{probe.GuestMemory, probe.GuestPtrace}},
		{HostHolds, elsewhere("a PID namespace for each container", "the processes of the host in a container"), []string{probe.GuestFreeze, probe.Processes}},
		{HostHolds, takenInSignals(), []string{probe.GuestSignals}},
		{SecretsStay, emptyEnvironment(), []string{probe.PlantedSecret}},
		{HostHolds, kept("the kernel's permission checks for modules and magic SysRq",
			"no kernel that this was tried on has either; what they ask for is refused before"), []string{probe.KernelModule, probe.Sysrq}},
	}
}

// elsewhere returns a defense of the engine, which has no constant. The tests of package
// containers remove it.
func elsewhere(name, with string) Defence {
	return kept(name, "enforced by the engine; in tests of containers the same attack runs with "+with)
}

// probeAttacks returns the attacks of the self-test. Here they are run by the agent and a
// server of a regular trial, while other trials run.
func probeAttacks() []Attack {
	by := map[string]held{}
	for _, h := range probeHeld() {
		for _, name := range h.attacks {
			by[name] = h
		}
	}
	var all []Attack
	for _, name := range slices.Sorted(maps.Keys(by)) {
		a := Attack{
			Name: name, As: Both, Goal: selftest.Goal(name), Promise: by[name].promise, Without: by[name].without,
			Won: ArrivedOrSaidSo, Tried: HasReport,
		}
		if name == probe.HostTCP {
			a.Task = besideCalm
		} else {
			a.In = probe.HostTCP
		}
		if name == probe.GuestSignals {
			a.Won = guestEnded
		}
		all = append(all, a)
	}
	return all
}

// guestEnded reports whether process 1 of a container ended. The attacker cannot report it,
// since it ended too.
func guestEnded(s Scene) (bool, string) {
	r := s.Result()
	if r.Reason == evidence.ReasonGuest || strings.Contains(r.Message, "process 1") {
		return true, r.Message
	}
	return SaidSo(s)
}
