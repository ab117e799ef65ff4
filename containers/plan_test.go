package containers

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// planned is a sandbox with an agent and two servers, and the planInput of its run.
func planned() (*sandbox.Spec, planInput) {
	agent := sandbox.Container{Image: "team/agent", CPUs: 2, Memory: 1 << 30, Disk: 512 << 20, Pids: 256}
	stock := sandbox.Container{Image: "team/stock", CPUs: 1, Memory: 64 << 20, Disk: 16 << 20, Pids: 32}
	t := &sandbox.Spec{
		Run: "r1", Task: "price", Number: 2, Network: sandbox.NetworkBridge,
		Containers: []sandbox.ContainerSpec{sandbox.AgentContainer(agent, "tmpfs", "{}")},
	}
	addServer(t, "files", sandbox.Container{Image: "team/node", CPUs: 0.5, Memory: 512 << 20, Disk: 256 << 20, Pids: 100})
	addServer(t, "stock", stock)
	addService(t, "stock", "cache", stock, 6379)
	stock.User = "26:26"
	addService(t, "stock", "db", stock, 5432)
	t.Container("files").Writable, t.Container("stock/db").Writable = []string{"/data"}, []string{"/data"}
	return t, planInput{
		images: map[string]imageInfo{
			"":           {Image: guests.Image{ID: "sha256:guest"}, layer: "sha256:guest"},
			"team/agent": {Image: guests.Image{ID: "sha256:agent"}, layer: "sha256:agent+"},
			"team/node":  {Image: guests.Image{ID: "sha256:node", User: "node", Users: map[string]string{"node": "1001:1002"}}, layer: "sha256:node+"},
			"team/stock": {Image: guests.Image{ID: "sha256:stock", User: "root", Volumes: []string{"/var/lib/stock"}}, layer: "sha256:stock+"},
		},
		user: guests.NewUserPool(7000).Get, seccomp: "{}",
	}
}

func TestPlan(t *testing.T) {
	tests := []struct {
		name   string
		change func(*sandbox.Spec, *planInput)
		want   string
	}{
		{"bridge", func(*sandbox.Spec, *planInput) {}, `
trial price/2
  network waza-r1-price-2 (internal, no address on the host)
  container waza-r1-price-2-agent
    image sha256:agent+ user 7000:7000 network waza-r1-price-2
    cpus 2.00 memory 1GiB pids 256
    /home/agent <- tmpfs size=536870912,nr_inodes=524288,mode=0700,uid=7000,gid=7000,exec
    /tmp <- tmpfs size=536870912,nr_inodes=524288,mode=0700,uid=7000,gid=7000,exec
    /workspace <- tmpfs size=536870912,nr_inodes=524288,mode=0700,uid=7000,gid=7000,exec
  container waza-r1-price-2-files
    image sha256:node+ user 1001:1002 network none
    cpus 0.50 memory 512MiB pids 100
    /data <- tmpfs size=268435456,nr_inodes=262144,mode=0700,uid=1001,gid=1002,exec
    /home/agent <- tmpfs size=268435456,nr_inodes=262144,mode=0700,uid=1001,gid=1002,exec
    /tmp <- tmpfs size=268435456,nr_inodes=262144,mode=0700,uid=1001,gid=1002,exec
  container waza-r1-price-2-stock
    image sha256:stock+ user 7001:7001 network none
    cpus 1.00 memory 64MiB pids 32
    /home/agent <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=7001,gid=7001,exec
    /tmp <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=7001,gid=7001,exec
    /var/lib/stock <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=7001,gid=7001,exec
  container waza-r1-price-2-stock.cache
    image sha256:stock+ user 7002:7002 network none
    cpus 1.00 memory 64MiB pids 32
    /home/agent <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=7002,gid=7002,exec
    /tmp <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=7002,gid=7002,exec
    /var/lib/stock <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=7002,gid=7002,exec
  container waza-r1-price-2-stock.db
    image sha256:stock+ user 26:26 network none
    cpus 1.00 memory 64MiB pids 32
    /data <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=26,gid=26,exec
    /home/agent <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=26,gid=26,exec
    /tmp <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=26,gid=26,exec
    /var/lib/stock <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=26,gid=26,exec
`},
		{"airtight", func(t *sandbox.Spec, _ *planInput) { t.Network = sandbox.NetworkAirtight }, `
trial price/2
  container waza-r1-price-2-agent
    image sha256:agent+ user 7000:7000 network none
    cpus 2.00 memory 1GiB pids 256
    /home/agent <- tmpfs size=536870912,nr_inodes=524288,mode=0700,uid=7000,gid=7000,exec
    /tmp <- tmpfs size=536870912,nr_inodes=524288,mode=0700,uid=7000,gid=7000,exec
    /workspace <- tmpfs size=536870912,nr_inodes=524288,mode=0700,uid=7000,gid=7000,exec
  container waza-r1-price-2-files
    image sha256:node+ user 1001:1002 network none
    cpus 0.50 memory 512MiB pids 100
    /data <- tmpfs size=268435456,nr_inodes=262144,mode=0700,uid=1001,gid=1002,exec
    /home/agent <- tmpfs size=268435456,nr_inodes=262144,mode=0700,uid=1001,gid=1002,exec
    /tmp <- tmpfs size=268435456,nr_inodes=262144,mode=0700,uid=1001,gid=1002,exec
  container waza-r1-price-2-stock
    image sha256:stock+ user 7001:7001 network none
    cpus 1.00 memory 64MiB pids 32
    /home/agent <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=7001,gid=7001,exec
    /tmp <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=7001,gid=7001,exec
    /var/lib/stock <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=7001,gid=7001,exec
  container waza-r1-price-2-stock.cache
    image sha256:stock+ user 7002:7002 network none
    cpus 1.00 memory 64MiB pids 32
    /home/agent <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=7002,gid=7002,exec
    /tmp <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=7002,gid=7002,exec
    /var/lib/stock <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=7002,gid=7002,exec
  container waza-r1-price-2-stock.db
    image sha256:stock+ user 26:26 network none
    cpus 1.00 memory 64MiB pids 32
    /data <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=26,gid=26,exec
    /home/agent <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=26,gid=26,exec
    /tmp <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=26,gid=26,exec
    /var/lib/stock <- tmpfs size=16777216,nr_inodes=16384,mode=0700,uid=26,gid=26,exec
`},
		{"volume workspace of a numeric user, guest's own image", func(t *sandbox.Spec, s *planInput) {
			t.Network, t.Containers = sandbox.NetworkAirtight, t.Containers[:2]
			useVolume(t)
			t.Container(sandbox.Agent).Image, t.Container(sandbox.Agent).User = "", "4711:12"
			s.images["team/node"] = imageInfo{Image: guests.Image{ID: "sha256:node", User: "65532"}, layer: "sha256:node+"}
		}, `
trial price/2
  volume waza-workspace-2504143bd0cefa1e2725a4a5
  container waza-r1-price-2-agent
    image sha256:guest user 4711:12 network none
    cpus 2.00 memory 1GiB pids 256
    /workspace <- volume waza-workspace-2504143bd0cefa1e2725a4a5 ro=false
    /home/agent <- tmpfs size=536870912,nr_inodes=524288,mode=0700,uid=4711,gid=12,exec
    /tmp <- tmpfs size=536870912,nr_inodes=524288,mode=0700,uid=4711,gid=12,exec
  container waza-r1-price-2-files
    image sha256:node+ user 65532:65532 network none
    cpus 0.50 memory 512MiB pids 100
    /data <- tmpfs size=268435456,nr_inodes=262144,mode=0700,uid=65532,gid=65532,exec
    /home/agent <- tmpfs size=268435456,nr_inodes=262144,mode=0700,uid=65532,gid=65532,exec
    /tmp <- tmpfs size=268435456,nr_inodes=262144,mode=0700,uid=65532,gid=65532,exec
`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			trial, s := planned()
			test.change(trial, &s)
			got := planTrial(trial, s).String()
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// Every container of a plan has the same walls, whatever it is for.
func TestPlanWalls(t *testing.T) {
	for _, kind := range []string{sandbox.NetworkBridge, sandbox.NetworkAirtight} {
		trial, s := planned()
		trial.Network, trial.Runtime = kind, "runsc"
		for _, c := range planTrial(trial, s).containers {
			r := c.host.Resources
			checks := map[string]bool{
				"no user of its own":       !guests.IsRoot(c.conf.User),
				"no capabilities":          cmp.Equal([]string(c.host.CapDrop), []string{"ALL"}) && len(c.host.CapAdd) == 0,
				"not privileged":           !c.host.Privileged,
				"no new privileges":        c.host.SecurityOpt[0] == "no-new-privileges",
				"a filter of ours":         len(c.host.SecurityOpt) == 2,
				"read-only root":           c.host.ReadonlyRootfs,
				"goes when it ends":        c.host.AutoRemove,
				"no log on disk":           c.host.LogConfig.Type == "none",
				"no host's namespace":      c.host.PidMode == "" && c.host.IpcMode == "" && c.host.UTSMode == "" && c.host.UsernsMode == "",
				"nothing of the host":      len(c.host.Binds) == 0 && len(c.host.Devices) == 0 && len(c.host.PortBindings) == 0,
				"a /dev/shm of its size":   c.host.ShmSize == c.SizeOf(sandbox.SharedMemory) && c.host.ShmSize > 0,
				"memory without swap":      r.Memory > 0 && r.MemorySwap == r.Memory,
				"cpu, process, file limit": r.NanoCPUs > 0 && *r.PidsLimit > 0 && len(r.Ulimits) == 3,
				"stdin that ends it":       c.conf.OpenStdin && c.conf.StdinOnce,
				"guest is process 1":       cmp.Equal([]string(c.conf.Entrypoint), []string{sandbox.GuestPath, "guest"}) && len(c.conf.Cmd) == 0,
				"no environment":           len(c.conf.Env) == 0,
				"labels":                   c.conf.Labels[labelRun] == "r1" && c.conf.Labels[labelTrial] == "price/2" && c.conf.Labels[labelRole] != "",
				"runtime passes through":   c.host.Runtime == "runsc",
				"asks its guest alone":     len(c.host.DNS) == 1 && c.host.DNS[0].IsLoopback(),
				"no healthcheck":           cmp.Equal(c.conf.Healthcheck.Test, []string{"NONE"}),
			}
			for what, ok := range checks {
				if !ok {
					t.Errorf("%s: %s: not so: %s", kind, c.engineName, what)
				}
			}
		}
	}
}

// A container whose programs may filter their own calls says so to its guest, and no other does.
func TestNestedSandboxes(t *testing.T) {
	trial, s := planned()
	trial.Container("files").NestedSandboxes = true
	for _, c := range planTrial(trial, s).containers {
		want := []string{sandbox.GuestPath, "guest"}
		if c.Name == trial.Container("files").Name {
			want = append(want, guest.NestedSandboxes)
		}
		if diff := cmp.Diff(want, []string(c.conf.Entrypoint)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.Name, diff)
		}
	}
}

func TestWithAddresses(t *testing.T) {
	subnet := addresses{netip.MustParsePrefix("10.213.0.8/29")}
	tests := []struct {
		network string
		agent   string // address; empty for none
		hosts   []string
	}{
		{sandbox.NetworkBridge, "10.213.0.10", []string{"files:10.213.0.10", "model:10.213.0.10", "stock:10.213.0.10"}},
		{sandbox.NetworkAirtight, "", []string{"files:127.0.1.1", "model:127.0.1.1", "stock:127.0.1.1"}},
	}
	for _, test := range tests {
		trial, s := planned()
		trial.Network = test.network
		trial.Reach = append(trial.Reach, sandbox.Edge{From: sandbox.Agent, Name: sandbox.ModelHost, To: sandbox.ModelHost})
		plan := planTrial(trial, s)
		for _, c := range plan.containers {
			c = plan.withAddress(c, trial, subnet)
			want := map[string]string{sandbox.Agent: test.agent}[c.Name]
			got := ""
			if net := c.networking("n"); net != nil {
				got = net.EndpointsConfig["n"].IPAMConfig.IPv4Address.String()
			}
			if got != want {
				t.Errorf("%s: %s has address %q, want %q", test.network, c.Name, got, want)
			}
			var hosts []string
			switch c.Name {
			case sandbox.Agent:
				hosts = test.hosts
			case "stock":
				hosts = []string{"cache:127.0.2.1", "db:127.0.2.2"}
			}
			if diff := cmp.Diff(hosts, c.host.ExtraHosts); diff != "" {
				t.Errorf("%s: hosts of %s (-want +got):\n%s", test.network, c.Name, diff)
			}
		}
		for _, c := range plan.containers {
			if c.addr.IsValid() || c.host.ExtraHosts != nil {
				t.Errorf("%s: placing %s changed the plan", test.network, c.Name)
			}
		}
	}
}

func TestTmpfsOptions(t *testing.T) {
	if got, want := tmpfsOptions("4711:12", 7), "size=7,nr_inodes=1,mode=0700,uid=4711,gid=12,exec"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
