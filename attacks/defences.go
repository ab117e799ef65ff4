package attacks

// Builds that several defences are taken out in.
const (
	openBuild    = "open"    // networks, names, filter
	rootBuild    = "root"    // privileges and read-only files
	guestBuild   = "guest"   // what process 1 does for itself
	undyingBuild = "undying" // what ends containers
	signalsBuild = "signals" // what keeps process 1 alive
)

// unchecked has a container used although its guest finds walls missing.
func unchecked() Edit {
	return Edit{
		"containers/sandbox.go", `"has a network interface")` + "\n\treturn errors.Join(broken...)",
		`"has a network interface")` + "\n\treturn nil",
	}
}

func noFilter() Edit {
	return Edit{
		"containers/plan.go", `if profile := r.scene.seccompFor(r.mode); profile != "" {`,
		`if profile := "unconfined"; profile != "" {`,
	}
}

func hostOnBridge() Edit {
	return Edit{"containers/network.go", `"com.docker.network.bridge.inhibit_ipv4": "true"`, `"com.docker.network.bridge.inhibit_ipv4": "false"`}
}

func filter() Defence {
	return Defence{Name: "the seccomp filter", Build: openBuild, Edits: []Edit{noFilter(), unchecked()}}
}

func noHostAddress() Defence {
	return Defence{Name: "no address of the host on a task network", Build: openBuild, Edits: []Edit{hostOnBridge(), unchecked()}}
}

func filterAndNoHost() Defence {
	return Defence{
		Name: "the seccomp filter, and no address of the host on a task network", Build: openBuild,
		Edits: []Edit{noFilter(), hostOnBridge(), unchecked()},
	}
}

func noIPv6() Defence {
	return Defence{Name: "no IPv6 on task networks", Build: openBuild, Edits: []Edit{{
		"containers/plan.go", "c.addr, target = a.agent(), a.relay()",
		"c.addr, target = a.agent(), a.relay()\n\t\t\tc.host.Sysctls = map[string]string{\"net.ipv6.conf.all.disable_ipv6\": \"0\"}",
	}, unchecked()}}
}

func knownNames() Defence {
	return Defence{Name: "names of the trial alone", Build: openBuild, Edits: []Edit{{
		"containers/apply.go", `names := map[string][]netip.Addr{"localhost": {netip.MustParseAddr("127.0.0.1")}`,
		`names := map[string][]netip.Addr{"host.docker.internal": {netip.MustParseAddr("192.0.2.123")}, "localhost": {netip.MustParseAddr("127.0.0.1")}`,
	}}}
}

func unknownNames() Defence {
	return Defence{Name: "NXDOMAIN for every other name", Build: openBuild, Edits: []Edit{{
		"runner/guest/dns_linux.go", "reply.RCode = dnsmessage.RCodeNameError", "reply.RCode = dnsmessage.RCodeSuccess",
	}}}
}

// serversStandAlone puts servers onto the task network, behind the agent.
func serversStandAlone() Defence {
	return Defence{Name: "no network for servers", Build: openBuild, Edits: []Edit{
		{"containers/plan.go", `c := build(server.Name, roleServer, server.Box, "none")`, `c := build(server.Name, roleServer, server.Box, mode)`},
		{"containers/plan.go", "\tdefault:\n\t\tfor name, at := range serviceAddresses(t, c.box) {", "\tdefault:\n" +
			"\t\tif c.addr = a.agent().Next(); c.box == \"" + calm + "\" {\n\t\t\tc.addr = c.addr.Next()\n\t\t}\n" +
			"\t\tfor name, at := range serviceAddresses(t, c.box) {"},
		{"containers/plan.go", "return box == relayBox || box == runner.AgentBox", "return box == relayBox || box == runner.AgentBox || box == \"" + evil + "\" || box == \"" + calm + "\""},
		unchecked(),
	}}
}

func relayListens() Defence {
	return Defence{Name: "one port of the relay", Build: openBuild, Edits: []Edit{{
		"containers/sandbox.go", "ln, err := box.guest.Listen(ctx, at)",
		"if _, err := box.guest.Listen(ctx, \":81\"); err != nil {\n\t\treturn nil, err\n\t}\n\tln, err := box.guest.Listen(ctx, at)",
	}}}
}

func graderAlone() Defence {
	return Defence{Name: "no network for graders' programs", Build: openBuild, Edits: []Edit{
		{"runner/programs.go", `t.Network = "airtight"`, `t.Network = "bridge"`}, hostOnBridge(), unchecked(),
	}}
}

func emptyEnvironment() Defence {
	return Defence{Name: "no environment of the runner's", Build: openBuild, Edits: []Edit{
		{"containers/plan.go", "import (\n\t\"cmp\"", "import (\n\t\"cmp\"\n\t\"os\""},
		{"containers/plan.go", "conf: container.Config{", "conf: container.Config{\n\t\t\tEnv: os.Environ(),"},
	}}
}

// privileged has programs run as root with every capability, outside of any filter.
func privileged() []Edit {
	return []Edit{
		{"containers/plan.go", "func userOf(wanted, image string) string {", "func userOf(wanted, image string) string {\n\tif true {\n\t\treturn \"0:0\"\n\t}"},
		{"containers/plan.go", `CapDrop:        []string{"ALL"},`, "CapAdd: []string{\"NET_ADMIN\", \"SYS_ADMIN\", \"SYSLOG\", \"SYS_PTRACE\", \"DAC_READ_SEARCH\"},\n\t\tReadonlyPaths: []string{}, MaskedPaths: []string{},"},
		noFilter(), unchecked(),
	}
}

func privileges() Defence {
	return Defence{Name: "a user other than root, without capabilities, under a filter", Build: rootBuild, Edits: privileged()}
}

func writableRoot() Defence {
	return Defence{Name: "a read-only root", Build: rootBuild, Edits: append(privileged(), Edit{
		"containers/plan.go", "ReadonlyRootfs: true,", "ReadonlyRootfs: false,",
	})}
}

func readOnlyFiles() Defence {
	return Defence{Name: "read-only files of waza's", Build: rootBuild, Edits: append(privileged(), Edit{
		"containers/plan.go", "Target: target, ReadOnly: true, VolumeOptions", "Target: target, ReadOnly: false, VolumeOptions",
	})}
}

// nothingOfTheHost gives containers what is the host's: its control groups, a device, and
// the engine's socket.
func nothingOfTheHost() Defence {
	const binds = `{Type: mount.TypeBind, Source: "/sys/fs/cgroup", Target: "/sys/fs/cgroup"}, ` +
		`{Type: mount.TypeBind, Source: "/var/run/docker.sock", Target: "/var/run/docker.sock"}`
	return Defence{Name: "nothing of the host's in a container", Build: rootBuild, Edits: append(privileged(), Edit{
		"containers/plan.go", "host.Mounts = []mount.Mount{readOnly(r.scene.guestVolume, guestDir)}",
		"host.Mounts = []mount.Mount{readOnly(r.scene.guestVolume, guestDir), " + binds + "}",
	}, Edit{
		"containers/plan.go", "Resources: container.Resources{",
		"Resources: container.Resources{\n\t\t\tDevices: []container.DeviceMapping{{PathOnHost: \"/dev/net/tun\", PathInContainer: \"/dev/net/tun\", CgroupPermissions: \"r\"}},",
	})}
}

func undumpable() Defence {
	return Defence{Name: "process 1 that cannot be dumped", Build: guestBuild, Edits: []Edit{{
		"runner/guest/serve_linux.go", "unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)", "unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)",
	}}}
}

// undumpableAndFilter hold what the filter alone refuses too.
func undumpableAndFilter() Defence {
	return Defence{
		Name: "the seccomp filter, and process 1 that cannot be dumped", Build: guestBuild,
		Edits: append(undumpable().Edits, noFilter(), unchecked()),
	}
}

func soleProgram() Defence {
	return Defence{Name: "nothing outlives the agent in its container", Build: guestBuild, Edits: []Edit{{
		"runner/guest/exec_linux.go", "if req.Sole {\n\t\tkillAll()\n\t}\n", "",
	}}}
}

func killing() Defence {
	return Defence{Name: "SIGKILL after SIGTERM", Build: guestBuild, Edits: []Edit{{
		"runner/attend.go", "_ = a.agent.Signal(process.Kill)", "_ = a.agent.Signal(process.Terminate)",
	}}}
}

func takenInSignals() Defence {
	return Defence{Name: "signals that process 1 takes in", Build: signalsBuild, Edits: []Edit{{
		"runner/guest/serve_linux.go", "if err := takeInSignals(); err != nil {\n\t\treturn err\n\t}\n", "",
	}}}
}

func recording() Defence {
	return Defence{Name: "frames on record", Build: guestBuild, Edits: []Edit{{
		"runner/evidence/recorder.go", "found, err := f.write(r.out, r.secrets, r.limit)", "found, err := redact.Found{}, error(nil)",
	}}}
}

// ending is what ends containers: their process 1, when its stdin does, and force.
func ending() Defence {
	return Defence{Name: "containers that end with the runner's end of their stdin", Build: undyingBuild, Edits: []Edit{
		{"runner/guest/serve_linux.go", "err = s.serve()\n\tkillAll()\n\treturn err", "if err = s.serve(); true {\n\t\ttime.Sleep(time.Hour)\n\t}\n\treturn err"},
		{"containers/box.go", "case b.leave():\n\t\treturn nil\n\t}\n\treturn e.removeContainer(ctx, b.id)", "case b.leave():\n\t\treturn nil\n\t}\n\tb.abandon()\n\treturn nil"},
		{"containers/recover.go", "b.owed[trial] = true", "delete(b.owed, trial)"},
	}}
}

func redaction() Defence {
	return Defence{Name: "secrets taken out of all that is written", Build: signalsBuild, Edits: []Edit{{
		"runner/redact/redact.go", "if len(text) < MinLength {", "if len(text) >= 0 {",
	}}}
}

func egressPolicy() Defence {
	return Defence{Name: "the policy of egress", Build: signalsBuild, Edits: []Edit{
		{"runner/egress/reach.go", "to, ok := c.policy.find(a.name, a.port)\n\tif !ok {", "to, ok := c.policy.find(a.name, a.port)\n\tif !ok && false {"},
		{"runner/egress/reach.go", `if why := c.policy.refuses(addr, a.port); why != "" {`, `if why := c.policy.refuses(addr, a.port); why != "" && false {`},
	}}
}
