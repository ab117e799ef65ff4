package containers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/sandbox"
)

const (
	// maxSkew is the tolerated difference between the clocks of the engine and this machine.
	// With more, ages of leases and times of events are misleading.
	maxSkew = 5 * time.Second
	// fewSubnets is the number of free subnets below which doctor warns.
	fewSubnets = 64
	// noEngineRoom is less disk space than the containers of a trial need; littleEngineRoom is less
	// than the images of an eval may need.
	noEngineRoom, littleEngineRoom = 256 << 20, 5 << 30
	// trialMemory is the memory of a usual trial: the default limits of an agent and a server.
	trialMemory = (1024 + 512) << 20
)

// assess returns the checks for facts.
func assess(f facts) sandbox.Checks {
	var all sandbox.Checks
	all.OK("engine", fmt.Sprintf("Docker %s, API %s, found %s: %s", f.info.ServerVersion, f.api, f.found, f.host))
	all.OK("system", fmt.Sprintf("%s, kernel %s, %s, %d CPUs", f.info.OperatingSystem, f.info.KernelVersion, f.info.Architecture, f.info.NCPU))
	f.assessLimits(&all)
	f.assessSecurity(&all)
	f.assessStorage(&all)
	f.assessNetworks(&all)
	f.assessClock(&all)
	f.assessMemory(&all)
	f.assessImages(&all)
	f.assessRuns(&all)
	return all
}

func (f facts) assessLimits(all *sandbox.Checks) {
	var missing, enforced []string
	limits := (&engine{info: f.info}).limits()
	for _, limit := range slices.Sorted(maps.Keys(limits)) {
		if limits[limit] {
			enforced = append(enforced, limit)
		} else {
			missing = append(missing, limit)
		}
	}
	cgroup := fmt.Sprintf("cgroup v%s, %s", f.info.CgroupVersion, f.info.CgroupDriver)
	if len(missing) == 0 {
		all.OK("limits", "of every container are enforced: "+strings.Join(enforced, ", ")+" ("+cgroup+")")
		return
	}
	all.Warn("limits", "not enforced: "+strings.Join(missing, ", ")+" ("+cgroup+")",
		"Have the engine's kernel count it (boot with cgroup_enable=memory swapaccount=1, or use cgroup v2; rootless engines need delegated controllers); a run says what it lacks under guarantees.")
}

func (f facts) assessSecurity(all *sandbox.Checks) {
	if has(f.info, "seccomp") {
		all.OK("seccomp", "containers run under a filter")
	} else {
		all.Fail("seccomp", "the engine filters no system calls, and a container on a bridge could reach the host",
			"Use an engine and a kernel with seccomp, or a runtime with a kernel of its own (config.isolation.runtime: runsc).")
	}
	var kind []string
	for name, label := range map[string]string{"rootless": "rootless", "userns": "user namespaces", "apparmor": "AppArmor", "selinux": "SELinux"} {
		if has(f.info, name) {
			kind = append(kind, label)
		}
	}
	slices.Sort(kind)
	if len(kind) == 0 {
		kind = []string{"the engine runs as root, without user namespaces"}
	}
	all.OK("security", strings.Join(kind, ", ")+"; runtimes: "+strings.Join(slices.Sorted(maps.Keys(f.info.Runtimes)), ", "))
}

func (f facts) assessStorage(all *sandbox.Checks) {
	message := f.info.Driver + ", free space not known"
	if f.room >= 0 {
		message = fmt.Sprintf("%s, %s free in %s", f.info.Driver, size(f.room), f.info.DockerRootDir)
	}
	switch {
	case f.room >= 0 && f.room < noEngineRoom:
		all.Fail("storage", message, "Free some space on the engine; docker system df shows what uses it.")
	case f.room >= 0 && f.room < littleEngineRoom:
		all.Warn("storage", message, "Free some space on the engine; docker system df shows what uses it.")
	case f.info.Driver == "vfs":
		all.Warn("storage", message+"; it copies every image for every container", "Give the engine the storage driver overlay2.")
	default:
		all.OK("storage", message)
	}
}

func (f facts) assessNetworks(all *sandbox.Checks) {
	const mend = "Set config.isolation.subnets to another range, or remove networks that nobody uses (docker network prune)."
	message := fmt.Sprintf("%d of %d subnets are free in %s", f.free, f.subnets, defaultRange)
	switch {
	case !slices.Contains(f.info.Plugins.Network, "bridge"):
		all.Fail("networks", "the engine has no bridge driver", "Enable the engine's bridge networks, or set config.isolation.network: airtight.")
	case f.free == 0:
		all.Fail("networks", message, mend)
	case f.free < fewSubnets:
		all.Warn("networks", message, mend)
	default:
		all.OK("networks", message)
	}
}

func (f facts) assessClock(all *sandbox.Checks) {
	if off := f.skew.Abs(); off > maxSkew+f.answered {
		way := "ahead of"
		if f.skew < 0 {
			way = "behind"
		}
		all.Warn("clock", fmt.Sprintf("the engine's is %s %s this machine's", off.Round(time.Second), way),
			"Set both by NTP; until then the times of events and the ages that waza gc goes by mislead.")
		return
	}
	all.OK("clock", "the engine's agrees with this machine's")
}

func (f facts) assessMemory(all *sandbox.Checks) {
	total := f.info.MemTotal
	message := fmt.Sprintf("%s, enough for %d usual trials at once at their limits", size(total), total/trialMemory)
	if total < trialMemory {
		all.Warn("memory", fmt.Sprintf("%s: one usual trial may take %s", size(total), size(trialMemory)),
			"Give the engine more memory, or set config.isolation.memory lower.")
		return
	}
	all.OK("memory", message)
}

func (f facts) assessImages(all *sandbox.Checks) {
	here, old := false, 0
	for _, i := range f.guests {
		if slices.Contains(i.RepoTags, f.own) {
			here = true
		} else {
			old++
		}
	}
	switch {
	case f.guest != "":
		all.Fail("guest", f.guest, "Build waza with make build, and run that.")
	case here:
		all.OK("guest", f.own+" is on the engine")
	default:
		all.OK("guest", f.own+" comes with the first run")
	}
	if old > 3 {
		all.Warn("old guests", fmt.Sprintf("%d guest images of other builds are on the engine", old), "Run waza gc: it removes those that no container uses and that are older than a day.")
	}
	message := "for packages: " + strings.Join(f.present, ", ")
	if len(f.missing) > 0 {
		message = "not here: " + strings.Join(f.missing, ", ") + "; they are pulled where an eval has servers of npx or uvx"
	}
	all.OK("images", fmt.Sprintf("%s; %d without a name", message, f.dangling))
}

func (f facts) assessRuns(all *sandbox.Checks) {
	if f.dead == 0 {
		all.OK("runs", fmt.Sprintf("%d live, nothing left of dead ones", f.live))
		return
	}
	all.Warn("runs", fmt.Sprintf("%d live; %d dead left %d objects", f.live, f.dead, f.objects), "Run waza gc, which removes what dead runs left.")
}

// size formats a number of bytes.
func size(bytes int64) string {
	if bytes >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}
