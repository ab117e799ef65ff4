package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A machine is a process with its own network, mount and PID namespaces. Everything that it
// starts, mounts and connects ends with it.
type machine struct {
	name    string
	address string // on the network of machines
	pods    string // the network of its pods
}

const (
	dir        = "/var/lib/waza-cluster"
	kubeconfig = dir + "/kubeconfig"
	link       = "waza-cluster" // this host's link to the network of machines

	hostAddress    = "10.246.0.254"
	services       = "10.248.0.0/24"
	serviceAddress = "10.248.0.1" // address of the API server for pods
	server         = "https://10.246.0.1:6443"
)

var machines = []machine{
	{name: "control", address: "10.246.0.1"},
	{name: "node1", address: "10.246.0.11", pods: "10.247.1.0/24"},
	{name: "node2", address: "10.246.0.12", pods: "10.247.2.0/24"},
}

func machineOf(name string) (machine, error) {
	for _, m := range machines {
		if m.name == name {
			return m, nil
		}
	}
	return machine{}, fmt.Errorf("there is no machine %q; there are control, node1 and node2", name)
}

func (m machine) dir() string { return dir + "/" + m.name }

// runMachine is process 1 of a machine. It waits for the end of its stdin, which signals
// that its links exist.
func runMachine(name string) error {
	m, err := machineOf(name)
	if err != nil {
		return err
	}
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	if err := m.mount(); err != nil {
		return err
	}
	if err := m.connect(); err != nil {
		return err
	}
	commands, err := m.commands()
	if err != nil {
		return err
	}
	return m.supervise(commands)
}

// mount gives the machine its own /proc and /run, and private copies of kernel settings
// that kubelets change.
func (m machine) mount() error {
	for _, flags := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|flags, ""); err != nil {
			return fmt.Errorf("change how mounts spread: %w", err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for path, text := range map[string]string{
		"/proc/sys/vm/overcommit_memory":      "1",
		"/proc/sys/vm/panic_on_oom":           "0",
		"/proc/sys/kernel/panic":              "10",
		"/proc/sys/kernel/panic_on_oops":      "1",
		"/proc/sys/kernel/keys/root_maxkeys":  "1000000",
		"/proc/sys/kernel/keys/root_maxbytes": "25000000",
		"/etc/resolv.conf":                    "# no name servers",
	} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		file := m.dir() + "/files" + path
		if err := write(file, text+"\n"); err != nil {
			return err
		}
		if path, err := filepath.EvalSymlinks(path); err != nil {
			continue // a link into the host's /run
		} else if err := unix.Mount(file, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount over %s: %w", path, err)
		}
	}
	return nil
}

// connect configures the links created by up. Control is the switch between all machines
// and this host, so that the host's filters do not see their traffic.
func (m machine) connect() error {
	commands := []string{"link set lo up"}
	device := "eth0"
	if m.pods == "" {
		device = "switch"
		commands = append(commands, "link add switch type bridge")
		for _, port := range []string{"host", "node1", "node2"} {
			commands = append(commands, "link set "+port+" master switch up")
		}
	}
	commands = append(commands, "link set "+device+" up", "addr add "+m.address+"/24 dev "+device)
	for _, other := range machines {
		if other.pods != "" && other.name != m.name {
			commands = append(commands, "route add "+other.pods+" via "+other.address)
		}
	}
	return ip(commands...)
}

// ip runs commands of ip(8).
func ip(commands ...string) error {
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// commands returns the commands that the machine runs, and writes their configuration
// files.
func (m machine) commands() ([][]string, error) {
	if m.pods == "" {
		return m.controlCommands(), nil
	}
	if err := m.configureContainerd(); err != nil {
		return nil, err
	}
	if err := m.configureKubelet(); err != nil {
		return nil, err
	}
	return [][]string{
		{"containerd", "--config", m.dir() + "/containerd.toml"},
		{self, "policy", m.name},
		{self, "kubelet", "--config=" + m.dir() + "/kubelet.json", "--kubeconfig=" + kubeconfig,
			"--root-dir=" + m.dir() + "/kubelet", "--cert-dir=" + m.dir() + "/kubelet/pki",
			"--hostname-override=" + m.name, "--node-ip=" + m.address},
	}, nil
}

func (m machine) controlCommands() [][]string {
	const etcd = "http://127.0.0.1:2379"
	return [][]string{
		{self, "etcd", "--data-dir=" + m.dir() + "/etcd", "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + etcd, "--advertise-client-urls=" + etcd,
			"--listen-peer-urls=http://127.0.0.1:2380"},
		{self, "kube-apiserver", "--etcd-servers=" + etcd, "--secure-port=6443",
			"--advertise-address=" + m.address, "--service-cluster-ip-range=" + services,
			"--client-ca-file=" + dir + "/ca.crt", "--authorization-mode=RBAC", "--allow-privileged",
			"--tls-cert-file=" + dir + "/server.crt", "--tls-private-key-file=" + dir + "/server.key",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + dir + "/server.key",
			"--service-account-signing-key-file=" + dir + "/server.key",
			"--kubelet-client-certificate=" + dir + "/admin.crt", "--kubelet-client-key=" + dir + "/admin.key",
			"--kubelet-certificate-authority=" + dir + "/ca.crt", "--kubelet-preferred-address-types=InternalIP",
			// Tests do not wait five minutes for a lost node's pods to go.
			"--default-not-ready-toleration-seconds=10", "--default-unreachable-toleration-seconds=10"},
		{self, "kube-controller-manager", "--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
			"--service-account-private-key-file=" + dir + "/server.key", "--root-ca-file=" + dir + "/ca.crt",
			"--use-service-account-credentials", "--node-monitor-period=2s", "--node-monitor-grace-period=12s"},
		{self, "kube-scheduler", "--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0"},
	}
}

func (m machine) configureContainerd() error {
	network := map[string]any{
		"cniVersion": "0.4.0", "name": "pods",
		"plugins": []any{map[string]any{
			"type": "ptp",
			"ipam": map[string]any{
				"type": "host-local", "dataDir": m.dir() + "/addresses", "subnet": m.pods,
				"routes": []any{map[string]string{"dst": "0.0.0.0/0"}},
			},
		}},
	}
	if err := writeJSON(m.dir()+"/cni/pods.conflist", network); err != nil {
		return err
	}
	plugins := "/usr/lib/cni"
	if _, err := os.Stat(plugins + "/ptp"); err != nil {
		plugins = "/opt/cni/bin"
	}
	return write(m.dir()+"/containerd.toml", fmt.Sprintf(`version = 2
root = %q
state = "/run/containerd"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = %q
# Where the host grants less than all capabilities, scores below its own are refused.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = %q
conf_dir = %q
`, m.dir()+"/containerd", pauseImage, plugins, m.dir()+"/cni"))
}

func (m machine) configureKubelet() error {
	return writeJSON(m.dir()+"/kubelet.json", map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + socket,
		"authentication": map[string]any{
			"anonymous": map[string]bool{"enabled": false},
			"webhook":   map[string]bool{"enabled": false},
			"x509":      map[string]string{"clientCAFile": dir + "/ca.crt"},
		},
		"authorization": map[string]string{"mode": "AlwaysAllow"},
		"tlsCertFile":   dir + "/server.crt", "tlsPrivateKeyFile": dir + "/server.key",
		"cgroupDriver": "cgroupfs", "cgroupRoot": "/" + cgroup + "/" + m.name,
		"failSwapOn":                false,
		"nodeStatusUpdateFrequency": "3s", "nodeLeaseDurationSeconds": 12,
		// Images are loaded and cannot be pulled again; the host's disk may be rather full.
		"imageGCHighThresholdPercent": 100,
		"evictionHard":                map[string]string{"memory.available": "100Mi"},
	})
}

// supervise starts the commands, restarts each a second after it ends, and reaps all
// orphans, as process 1 must.
func (m machine) supervise(commands [][]string) error {
	running := map[int][]string{}
	start := func(command []string) error {
		pid, err := m.start(command)
		running[pid] = command
		return err
	}
	for _, c := range commands {
		if err := start(c); err != nil {
			return err
		}
	}
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		if err != nil && err != syscall.EINTR {
			return err
		}
		if command, ok := running[pid]; ok {
			delete(running, pid)
			time.Sleep(time.Second)
			if err := start(command); err != nil {
				return err
			}
		}
	}
}

// start starts a command with its own log.
func (m machine) start(command []string) (int, error) {
	name := command[0]
	if name == self {
		name = command[1]
	}
	log, err := os.OpenFile(m.dir()+"/"+name+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	path, err := exec.LookPath(command[0])
	if err != nil {
		return 0, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	p, err := os.StartProcess(path, command, &os.ProcAttr{Files: []*os.File{null, log, log}, Dir: "/"})
	if err != nil {
		return 0, err
	}
	pid := p.Pid
	return pid, p.Release()
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return write(path, string(b))
}

// write writes a file and creates its parent directories.
func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
