package attacks

import "github.com/waza-isolate/waza/test/attacks/part"

// kernelAttacks returns the attacks on the kernel and on process 1 by system calls that no
// container needs.
func kernelAttacks() []Attack {
	asks := func(name, tries string, without Defence) Attack {
		a := Attack{Name: name, As: Both, Goal: tries, Promise: HostHolds, Without: without, In: part.Kernel, Won: SaidSo, Tried: HasReport}
		if name == part.Kernel {
			a.In = ""
		}
		return a
	}
	return []Attack{
		asks(part.Kernel, "handle its own page faults (userfaultfd), which can stall the kernel", filter()),
		asks("unshare", "create namespaces", privileges()),
		asks("setns", "open the namespaces of process 1", undumpable()),
		asks("guest-vm-read", "read process 1's memory with process_vm_readv", undumpable()),
		asks("guest-descriptors", "copy a file descriptor of process 1 (pidfd_getfd)", undumpableAndFilter()),
		asks("guest-oom-score", "have the OOM killer choose process 1", privileges()),
		asks("open-by-handle", "open a file of the host by its handle", privileges()),
		asks("chroot", "escape its root with chroot", privileges()),
		asks("set-hostname", "change the host name", privileges()),
		asks("fanotify", "watch file systems", filter()),
		asks("swapon", "add swap to the machine", privileges()),
		asks("crypto-socket", "open a socket of the kernel's crypto API (AF_ALG)", filter()),
		asks("high-bits", "open a socket to the hypervisor with high argument bits set, which a 64-bit filter misses", filter()),
		asks("release-agent", "make the host run a program by a control group's release_agent", nothingOfTheHost()),
		asks("cgroup-limits", "raise the limits of its control group", nothingOfTheHost()),
		asks("seccomp-filters", "compile filters of system calls, for which the machine has one pool of memory (bpf_jit_limit)", noFilters()),
		asks("socket-memory", "have the kernel hold memory for a socket outside its container's limit (filters, keys, flow labels)", filter()),
		asks("special-pages", "take huge or secret pages, which the machine has for all", filter()),
		asks("core-limit", "set its limit of core dumps to 0, with which a crash starts the machine's program for them", noCoreDumps()),
		asks("host-names", "read the kernel's arguments, names of disks, or the names of its control group, its run or the runner's directory", hiddenNames()),
		asks("core-pattern", "make the host run a program by core_pattern", privileges()),
	}
}

// fileAttacks returns the attacks that change the files of waza in the container.
func fileAttacks() []Attack {
	return []Attack{
		{
			Name: part.OurFiles, As: Both, Promise: HostHolds, Without: writableRoot(), Won: SaidSo, Tried: HasReport,
			Goal: "write, replace, rename or remove the agent's mcp.json",
		},
		{
			Name: "guest-binary", As: Both, Promise: HostHolds, Without: writableRoot(), Won: SaidSo, Tried: HasReport, In: part.OurFiles,
			Goal: "change the executable of process 1",
		},
	}
}
