package attacks

import "github.com/waza-isolate/waza/attacks/part"

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
		asks(part.Kernel, "handle page faults of its own, which holds up the kernel", filter()),
		asks("unshare", "make namespaces of its own", privileges()),
		asks("setns", "open the namespaces of process 1", undumpable()),
		asks("guest-vm-read", "read process 1's memory with process_vm_readv", undumpable()),
		asks("guest-descriptors", "take over a descriptor of process 1", undumpableAndFilter()),
		asks("guest-oom-score", "have process 1 ended when memory is short", privileges()),
		asks("open-by-handle", "open a file of the host by its handle", privileges()),
		asks("chroot", "change its root, and walk out of it", privileges()),
		asks("set-hostname", "rename its machine", privileges()),
		asks("fanotify", "watch file systems", filter()),
		asks("swapon", "add swap to the machine", privileges()),
		asks("crypto-socket", "reach the kernel's cryptography, which nothing here needs", filter()),
		asks("high-bits", "open a socket to the hypervisor past a filter that reads 64 bits", filter()),
		asks("release-agent", "have the host run a program when a control group ends", nothingOfTheHost()),
		asks("cgroup-limits", "raise its own limits", nothingOfTheHost()),
		asks("core-pattern", "have the host run a program when another crashes", privileges()),
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
