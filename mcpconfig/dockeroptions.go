package mcpconfig

import (
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// runOption is an option of docker run. If neither refuse nor take is set, isolated containers do what it
// asks for anyway.
type runOption struct {
	switches bool   // it has no value
	refuse   string // reason and alternative, for a message that begins with the option's name
	take     func(r *runReader, name, value string)
}

// runLetters maps the short options to the long ones.
func runLetters() map[string]string {
	return map[string]string{
		"d": "detach", "e": "env", "i": "interactive", "l": "label", "m": "memory", "P": "publish-all",
		"p": "publish", "q": "quiet", "t": "tty", "u": "user", "v": "volume", "w": "workdir",
	}
}

// takenOptions returns the names of the options that are not refused.
func takenOptions() []string {
	all := runOptions()
	maps.DeleteFunc(all, func(_ string, o runOption) bool { return o.refuse != "" })
	return slices.Sorted(maps.Keys(all))
}

func runOptions() map[string]runOption {
	all := map[string]runOption{
		"interactive": {switches: true}, "tty": {switches: true}, "rm": {switches: true}, "init": {switches: true},
		"quiet": {switches: true}, "read-only": {switches: true},
		"name": {}, "label": {}, "cap-drop": {},

		"env":          {take: (*runReader).takeEnv},
		"pull":         setsText("pull", func(s *Server) *string { return &s.Pull }, checkPull),
		"workdir":      {take: (*runReader).takeWorkdir},
		"entrypoint":   {take: func(r *runReader, _, value string) { r.entrypoint = &value }},
		"user":         setsText("user", func(s *Server) *string { return &s.User }, unlessVariable(CheckUser)),
		"memory":       setsText("memory", func(s *Server) *string { return &s.Memory }, unlessVariable(checkSize)),
		"shm-size":     setsText("shm_size", func(s *Server) *string { return &s.ShmSize }, unlessVariable(checkSize)),
		"cpus":         {take: (*runReader).takeCPUs},
		"pids-limit":   {take: (*runReader).takePids},
		"tmpfs":        {take: (*runReader).takeTmpfs},
		"platform":     setsText("platform", func(s *Server) *string { return &s.Platform }, func(string) error { return nil }),
		"network":      {take: (*runReader).takeNetwork},
		"net":          {take: (*runReader).takeNetwork},
		"security-opt": {take: (*runReader).takeSecurity},
	}
	maps.Copy(all, refusedOptions())
	return all
}

// refusedOptions returns the options that would break isolation or are meaningless with it.
func refusedOptions() map[string]runOption {
	const (
		mounts     = "mounts a directory of the host, which an isolated server must not reach; copy files in with files, and list what it writes to under writable"
		publishes  = "opens a port on the host; leave it out, and for an HTTP server set port to where it listens in its container"
		namespaces = "shares a part of the system with the host or another container; leave it out"
		resolves   = "is about names outside, and the server has no network; leave it out"
		devices    = "hands in a device of the host; leave it out"
	)
	all := map[string]runOption{}
	for sentence, names := range map[string]string{
		mounts:     "volume mount volumes-from volume-driver",
		publishes:  "publish expose",
		namespaces: "pid ipc uts userns cgroupns cgroup-parent link",
		resolves:   "add-host dns dns-option dns-search network-alias net-alias ip ip6 mac-address",
		devices:    "device device-cgroup-rule gpus",
		"adds a capability and containers have none; leave it out":                                    "cap-add",
		"reads a file of the host; write its variables under env and name each with -e":               "env-file",
		"is the runtime of the whole eval; set config.isolation.runtime":                              "runtime",
		"gives the user more groups; name one with -u USER:GROUP":                                     "group-add",
		"changes the kernel's settings; leave it out":                                                 "sysctl",
		"would start the container again, and a new session starts the server anew; leave it out":     "restart",
		"is about swap and containers have none; leave it out and limit the memory with -m":           "memory-swap",
		"writes a file on the host; leave it out":                                                     "cidfile",
		"is about the engine's log, which is off; leave it out, since stderr is kept in the evidence": "log-driver log-opt",
	} {
		for _, name := range strings.Fields(names) {
			all[name] = runOption{refuse: sentence}
		}
	}
	all["publish-all"] = runOption{switches: true, refuse: publishes}
	all["privileged"] = runOption{switches: true, refuse: "turns off the isolation of the container; remove it"}
	all["detach"] = runOption{switches: true, refuse: "leaves the server without stdin; leave it out"}
	return all
}

// setsText returns an option whose value becomes the text field of the server called own. The value must not
// contradict the field's existing value.
func setsText(own string, field func(*Server) *string, check func(value string) error) runOption {
	return runOption{take: func(r *runReader, name, value string) {
		if err := check(value); err != nil {
			r.wrong("%s %v", name, err)
		}
		to := field(&r.to)
		if *to != "" && *to != value {
			r.wrong("%s sets %s to a different value; set it once", name, own)
		}
		*to = value
	}}
}

// unlessVariable returns a function that applies check to values without variables. Values with variables are
// checked after expansion.
func unlessVariable(check func(value string) error) func(string) error {
	return func(value string) error {
		if hasVariable(value) {
			return nil
		}
		return check(value)
	}
}

// takeEnv takes KEY=VALUE, or KEY with its value in env or, if that has none, the value of the runner's
// variable.
func (r *runReader) takeEnv(name, value string) {
	key, value, given := strings.Cut(value, "=")
	if !IsVariable(key) {
		r.wrong("%s needs KEY or KEY=VALUE, and %q is not a variable's name", name, key)
		return
	}
	if _, secret := r.from.Secrets[key]; secret && !given {
		return // its value is set where the server is started
	}
	if !given {
		var own bool
		if value, own = r.from.Env[key]; !own {
			value = "${" + key + "}"
		}
		r.named[key] = true
	}
	if r.to.Env == nil {
		r.to.Env = map[string]string{}
	}
	r.to.Env[key] = value
}

func (r *runReader) takeWorkdir(name, value string) {
	if !hasVariable(value) && !path.IsAbs(value) {
		r.wrong("%s must be an absolute path in the container", name)
	}
	r.to.Cwd = value
}

func (r *runReader) takeCPUs(name, value string) {
	n, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || !(n > 0) || math.IsInf(n, 0):
		r.wrong("%s must be a number over 0", name)
	case r.from.CPUs != 0 && r.from.CPUs != n:
		r.wrong("%s sets cpus to a different value; set it once", name)
	}
	r.to.CPUs = n
}

func (r *runReader) takePids(name, value string) {
	n, err := strconv.Atoi(value)
	switch {
	case err != nil || n < 1:
		r.wrong("%s must be a whole number from 1; processes are always limited", name)
	case r.from.Pids != 0 && r.from.Pids != n:
		r.wrong("%s sets pids to a different value; set it once", name)
	}
	r.to.Pids = n
}

func (r *runReader) takeTmpfs(name, value string) {
	dir, options, _ := strings.Cut(value, ":")
	if options != "" {
		r.wrong("%s supports only a directory here; its size is the server's disk", name)
	}
	if err := checkWritable(dir); err != nil && !hasVariable(dir) {
		r.wrong("%s %v", name, err)
	}
	r.to.Writable = append(r.to.Writable, dir)
}

func (r *runReader) takeNetwork(name, value string) {
	if value != "none" {
		r.wrong("%s gives the container a network and a server has none with isolation; leave it out, since the runner reaches it without", name)
	}
}

func (r *runReader) takeSecurity(name, value string) {
	if !slices.Contains([]string{"no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"}, value) {
		r.wrong("%s changes how the container is confined; leave it out", name)
	}
}
