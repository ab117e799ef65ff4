package containers

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

const guestDir = "/opt/waza"

// planInput is the input of a sandbox's plan besides its spec.
type planInput struct {
	images  map[string]imageInfo // by reference; "" is the guest image
	user    func() string        // returns a user that no other container has, or "" if there is none
	seccomp string               // seccomp profile; empty for the engine's own
}

// containerPlan is the plan of one container, in the engine's types.
type containerPlan struct {
	sandbox.ContainerSpec
	engineName string
	addr       netip.Addr // address on the task network; invalid if it has none
	conf       container.Config
	host       container.HostConfig
	image      imageInfo
	// requiredBy is who requires the user, the eval or its image; empty if nobody does.
	requiredBy string
}

// trialPlan is everything of one sandbox except its subnet, which depends on the engine.
type trialPlan struct {
	trial      string // label
	network    string // name of the network; empty if there is none
	workspace  string // name of the volume; empty for a tmpfs
	containers []containerPlan
}

// planTrial plans the objects to create for a sandbox.
func planTrial(t *sandbox.Spec, s planInput) trialPlan {
	label := t.Label()
	base := fmt.Sprintf("waza-%s-%s-%d", t.Run, t.Task, t.Number)
	if t.Attempt > 1 { // an abandoned request of the first attempt may still create an object
		base += "." + strconv.Itoa(t.Attempt)
	}
	p := trialPlan{trial: label}
	mode := container.NetworkMode("none")
	if t.Network == sandbox.NetworkBridge && t.HasAgent() {
		p.network = base
		mode = container.NetworkMode(base)
	}
	serverMode := container.NetworkMode("none")
	if !defence.NoNetworkForServers {
		serverMode = mode
	}
	modes := map[string]container.NetworkMode{sandbox.RoleAgent: mode, sandbox.RoleServer: serverMode, sandbox.RoleService: "none"}
	for _, c := range t.Containers {
		planned := planContainer(containerRequest{
			ContainerSpec: c, run: t.Run, trial: label, engineName: base + "-" + fileName(c.Name),
			image: s.images[c.Image], mode: modes[c.Role], runtime: t.Runtime, input: s,
		})
		switch {
		case c.Role == sandbox.RoleService:
			planned.conf.Labels[labelSession] = t.Run
		case c.Volume != "":
			p.workspace = volumeName("workspace", base)
			planned.host.Mounts = append(planned.host.Mounts, mount.Mount{
				Type: mount.TypeVolume, Source: p.workspace, Target: c.Volume, VolumeOptions: &mount.VolumeOptions{NoCopy: true},
			})
		}
		p.containers = append(p.containers, planned)
	}
	return p
}

// planOwn plans a container of the run as a whole, which runs nothing but our executable.
func planOwn(run, role string, limits sandbox.Container, guest imageInfo, users userRange) containerPlan {
	own := sandbox.ContainerSpec{Container: limits, Name: role, Role: role}
	return planContainer(containerRequest{
		ContainerSpec: own, run: run, trial: wholeRun, engineName: "waza-" + run + "-" + role,
		image: guest, mode: "none", input: planInput{user: users.lease},
	})
}

type containerRequest struct {
	sandbox.ContainerSpec
	run, trial, engineName string
	image                  imageInfo
	mode                   container.NetworkMode
	runtime                string
	input                  planInput
}

// planContainer plans a container with the same walls for all: no capabilities, no new
// privileges, a read-only root, hard limits, and no name server except its own guest.
func planContainer(r containerRequest) containerPlan {
	user, insists := r.image.UserOf(r.User)
	if insists == "" {
		user = r.input.defaultUser()
	}
	if !defence.Unprivileged {
		user = "0:0"
	}
	plan := containerPlan{
		ContainerSpec: r.ContainerSpec, engineName: r.engineName, image: r.image, host: r.hostConfig(user), requiredBy: insists,
		conf: container.Config{
			Image:       r.image.layer,
			User:        user,
			WorkingDir:  "/", // the image's directory could confuse the engine's runtime
			Entrypoint:  guests.Command(r.Container),
			Labels:      labels(r.run, r.trial, r.Role),
			OpenStdin:   true,
			StdinOnce:   true,
			AttachStdin: true, AttachStdout: true, AttachStderr: true,
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		},
	}
	if !defence.EmptyEnvironment {
		plan.conf.Env = os.Environ()
	}
	return plan
}

// hostConfig returns the walls of a container whose programs run as user.
func (r containerRequest) hostConfig(user string) container.HostConfig {
	host := container.HostConfig{
		AutoRemove:     true,
		NetworkMode:    r.mode,
		LogConfig:      container.LogConfig{Type: "none"},
		SecurityOpt:    []string{"no-new-privileges"},
		ReadonlyRootfs: defence.ReadOnlyRoot,
		MaskedPaths:    slices.Concat(maskedPaths, namingPaths),
		CgroupnsMode:   container.CgroupnsModePrivate,
		DNS:            []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})},
		DNSSearch:      []string{"."},
		DNSOptions:     []string{"use-vc"},
		ShmSize:        r.SizeOf(sandbox.SharedMemory),
		Runtime:        r.runtime,
		Tmpfs:          map[string]string{},
		Sysctls:        map[string]string{},
		Resources:      resources(r.Container),
	}
	if defence.SmallTCPBuffers {
		maps.Copy(host.Sysctls, tcpBuffers())
	}
	if defence.Unprivileged {
		host.CapDrop = []string{"ALL"}
	} else {
		host.CapAdd = []string{"NET_ADMIN", "SYS_ADMIN", "SYSLOG", "SYS_PTRACE", "DAC_READ_SEARCH"}
		host.ReadonlyPaths, host.MaskedPaths = []string{}, []string{}
	}
	if !defence.HiddenNames {
		host.MaskedPaths, host.CgroupnsMode = maskedPaths, container.CgroupnsModeHost
	}
	if !defence.SizedSharedMemory {
		host.ShmSize *= 8
	}
	if profile := r.input.profile(); profile != "" {
		host.SecurityOpt = append(host.SecurityOpt, "seccomp="+profile)
	}
	if r.Disk > 0 {
		for _, dir := range r.image.Volumes {
			host.Tmpfs[dir] = tmpfsOptions(user, r.SizeOf(dir))
		}
		for _, dir := range []string{sandbox.ScratchDir, sandbox.HomeDir} {
			host.Tmpfs[dir] = tmpfsOptions(user, r.SizeOf(dir))
		}
	}
	for _, dir := range r.Writable {
		host.Tmpfs[dir] = tmpfsOptions(user, r.SizeOf(dir))
	}
	if r.Image != "" {
		r.exposeHost(&host)
	}
	return host
}

// exposeHost adds the targets of attacks if a test disables a defence: files of the guest image and
// the host.
func (r containerRequest) exposeHost(host *container.HostConfig) {
	if !defence.OwnFiles { // the engine fills it from the image
		host.Mounts = []mount.Mount{{
			Type: mount.TypeVolume, Source: "waza-" + r.run + "-guest", Target: guestDir, ReadOnly: true,
			VolumeOptions: &mount.VolumeOptions{Labels: labels(r.run, wholeRun, roleAside)},
		}}
	}
	if !defence.NothingOfTheHost {
		for _, path := range []string{"/sys/fs/cgroup", "/var/run/docker.sock"} {
			host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: path, Target: path})
		}
		host.Devices = []container.DeviceMapping{{PathOnHost: "/dev/net/tun", PathInContainer: "/dev/net/tun", CgroupPermissions: "r"}}
	}
}

// maskedPaths are the paths that the engine masks by default, and the kernel's list of locks,
// which shows those of other containers.
var maskedPaths = []string{
	"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/locks", "/proc/sched_debug",
	"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
}

// namingPaths are paths that show names of the host: its kernel's arguments, its disks and the
// files behind them, and its users.
var namingPaths = []string{
	"/proc/cmdline", "/proc/diskstats", "/proc/key-users", "/proc/mdstat", "/proc/modules", "/proc/partitions", "/proc/swaps",
	"/sys/block", "/sys/class/block", "/sys/dev/block", "/sys/devices/virtual/block", "/sys/devices/virtual/dmi",
}

// lockedMemory is how many bytes a process may lock in memory (mlock(2)).
const lockedMemory = 64 << 10

// coreLimit is the limit of core dumps in bytes. It is not 0, because the kernel ignores a limit of
// 0 if a program of the machine receives core dumps; see package guest.
const coreLimit = 1

// resources returns the resource limits of a container.
func resources(b sandbox.Container) container.Resources {
	cpus, memory, pids := int64(b.CPUs*1e9), b.Memory, b.Pids
	openFiles := cmp.Or(b.OpenFiles, sandbox.DefaultOpenFiles)
	if !defence.BoundedCPU {
		cpus = 0 // unlimited
	}
	if !defence.BoundedMemory {
		memory *= 4
	}
	if !defence.FewProcesses {
		pids *= 4
	}
	if !defence.FewOpenFiles {
		openFiles *= 4
	}
	return container.Resources{
		NanoCPUs:   cpus,
		Memory:     memory,
		MemorySwap: memory,
		PidsLimit:  &pids,
		Ulimits: []*units.Ulimit{
			{Name: "nofile", Soft: openFiles, Hard: openFiles}, {Name: "core", Soft: coreLimit, Hard: coreLimit},
			{Name: "memlock", Soft: lockedMemory, Hard: lockedMemory},
		},
	}
}

// tcpBuffers returns the sysctls that limit TCP buffers, which cgroup v1 does not account to a
// container. Programs cannot raise them: the seccomp filter ignores SO_RCVBUF and SO_SNDBUF.
//
// A receiver offers a window for 32 KiB and no more, but may store 256 KiB, since a short segment
// takes far more memory than its data. Linux 6.17 drops what does not fit and then closes its
// window. If both ends do so at the same time, neither takes the other's updates, and the
// connection is stuck; see commit 1d2fbaad7cd8 in Linux, "tcp: stronger sk_rcvbuf checks".
func tcpBuffers() map[string]string {
	return map[string]string{
		"net.ipv4.tcp_rmem":            "4096 32768 262144",
		"net.ipv4.tcp_moderate_rcvbuf": "0",
		"net.ipv4.tcp_wmem":            "4096 16384 32768",
	}
}

// maxInodes is how many files, directories and links a writable directory of any size may hold.
const maxInodes = 1<<20 - 1

// tmpfsOptions returns the mount options of a user's writable directory. It allows one file per
// KiB of its size, because empty files use the kernel's memory, and take time to collect.
func tmpfsOptions(user string, size int64) string {
	uid, gid, _ := strings.Cut(user, ":")
	inodes := size >> 10
	if !defence.FewFiles {
		inodes *= 16
	}
	if !defence.SizedDirectories {
		size *= 2
	}
	inodes = min(max(inodes, 1), maxInodes) // 0 would mean unlimited
	return fmt.Sprintf("size=%d,nr_inodes=%d,mode=0700,uid=%s,gid=%s,exec", size, inodes, uid, gid)
}

// lacksUsers reports whether a container has no user because all are in use.
func (p trialPlan) lacksUsers() bool {
	return slices.ContainsFunc(p.containers, func(c containerPlan) bool { return c.conf.User == "" })
}

// releaseUsers returns the containers' users to the pool they came from.
func (p trialPlan) releaseUsers(to guests.Pool) {
	for _, c := range p.containers {
		if c.requiredBy == "" {
			to.Put(c.conf.User)
		}
	}
}

func (s planInput) profile() string {
	if !defence.SeccompFilter {
		return "unconfined"
	}
	return s.seccomp
}

// defaultUser returns the user of a container if nobody requires one.
func (s planInput) defaultUser() string {
	if !defence.OwnUsers {
		return "1000:1000"
	}
	return s.user()
}

// String returns the plan in a readable form.
func (p trialPlan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "trial %s\n", p.trial)
	if p.network != "" {
		fmt.Fprintf(&b, "  network %s (internal, no address on the host)\n", p.network)
	}
	if p.workspace != "" {
		fmt.Fprintf(&b, "  volume %s\n", p.workspace)
	}
	for _, c := range p.containers {
		fmt.Fprintf(&b, "  container %s\n    image %s user %s network %s\n    cpus %.2f memory %s pids %d\n",
			c.engineName, c.conf.Image, c.conf.User, c.host.NetworkMode,
			float64(c.host.NanoCPUs)/1e9, units.BytesSize(float64(c.host.Memory)), *c.host.PidsLimit)
		for _, m := range c.host.Mounts {
			fmt.Fprintf(&b, "    %s <- volume %s ro=%t\n", m.Target, m.Source, m.ReadOnly)
		}
		for _, dir := range slices.Sorted(maps.Keys(c.host.Tmpfs)) {
			fmt.Fprintf(&b, "    %s <- tmpfs %s\n", dir, c.host.Tmpfs[dir])
		}
	}
	return b.String()
}
