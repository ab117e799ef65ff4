package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	self   = "/proc/self/exe"
	socket = "/run/containerd/containerd.sock" // in a machine
	cgroup = "waza-cluster"
)

// up starts the cluster and waits until pods can run. It first removes what an earlier one
// left after a crash.
func up() error {
	if ready(context.Background()) == nil {
		fmt.Println(kubeconfig)
		return nil
	}
	if err := down(); err != nil {
		return err
	}
	err := start()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		err = await(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w; logs are in %s/*/*.log", err, dir)
	}
	fmt.Println(kubeconfig)
	return nil
}

func start() error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := writeCertificates(); err != nil {
		return err
	}
	if err := writeKubeconfig(); err != nil {
		return err
	}
	if err := writePauseImage(dir + "/pause.tar"); err != nil {
		return err
	}
	var links []func() error
	pids := map[string]int{}
	for _, m := range machines {
		pid, linked, err := m.startProcess()
		if err != nil {
			return fmt.Errorf("start machine %s: %w", m.name, err)
		}
		pids[m.name] = pid
		links = append(links, linked)
	}
	if err := connect(pids); err != nil {
		return err
	}
	for _, linked := range links {
		if err := linked(); err != nil {
			return err
		}
	}
	return nil
}

// startProcess starts process 1 of the machine. The caller must call linked once the
// machine's links exist.
func (m machine) startProcess() (pid int, linked func() error, err error) {
	if err := os.MkdirAll(m.dir(), 0o755); err != nil {
		return 0, nil, err
	}
	if m.pods != "" {
		if err := makeCgroup(m.name); err != nil {
			return 0, nil, err
		}
	}
	log, err := os.Create(m.dir() + "/machine.log")
	if err != nil {
		return 0, nil, err
	}
	defer log.Close()
	executable, err := os.Executable()
	if err != nil {
		return 0, nil, err
	}
	c := exec.Command(executable, "machine", m.name)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
	}
	stdin, err := c.StdinPipe()
	if err != nil {
		return 0, nil, err
	}
	if err := c.Start(); err != nil {
		return 0, nil, err
	}
	return c.Process.Pid, stdin.Close, write(m.pidFile(), strconv.Itoa(c.Process.Pid))
}

// makeCgroup creates the control group under which a kubelet creates those of its pods.
func makeCgroup(name string) error {
	const root = "/sys/fs/cgroup"
	controllers, err := os.ReadFile(root + "/cgroup.controllers")
	if err != nil { // version 1: one hierarchy per controller
		hierarchies, err := filepath.Glob(root + "/*/tasks")
		if err != nil {
			return err
		}
		for _, h := range hierarchies {
			if err := os.MkdirAll(filepath.Dir(h)+"/"+cgroup+"/"+name, 0o755); err != nil {
				return err
			}
		}
		return nil
	}
	if err := os.MkdirAll(root+"/"+cgroup+"/"+name, 0o755); err != nil {
		return err
	}
	enable := "+" + strings.Join(strings.Fields(string(controllers)), " +")
	for _, group := range []string{root, root + "/" + cgroup, root + "/" + cgroup + "/" + name} {
		if err := os.WriteFile(group+"/cgroup.subtree_control", []byte(enable), 0); err != nil {
			return err
		}
	}
	return nil
}

// connect links every node, and this host, to control.
func connect(pids map[string]int) error {
	commands := []string{fmt.Sprintf("link add %s type veth peer name host netns %d", link, pids["control"])}
	for _, m := range machines {
		if m.pods != "" {
			commands = append(commands,
				fmt.Sprintf("link add eth0 netns %d type veth peer name %s netns %d", pids[m.name], m.name, pids["control"]))
		}
	}
	commands = append(commands, "addr add "+hostAddress+"/24 dev "+link, "link set "+link+" up")
	for _, m := range machines {
		if m.pods != "" {
			commands = append(commands, "route add "+m.pods+" via "+m.address)
		}
	}
	return ip(commands...)
}

// await waits until the cluster is ready, and loads the image that every pod needs.
func await(ctx context.Context) error {
	for _, m := range machines {
		for m.pods != "" {
			if exec.CommandContext(ctx, "ctr", "-a", m.socket(), "version").Run() == nil {
				break
			}
			if err := pause(ctx); err != nil {
				return fmt.Errorf("containerd of %s does not answer", m.name)
			}
		}
	}
	if err := load([]string{dir + "/pause.tar"}); err != nil {
		return err
	}
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if pause(ctx) != nil {
			return err
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

// ready returns an error unless pods can run on every node.
func ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := newClient()
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	for _, m := range machines {
		if m.pods == "" {
			continue
		}
		n, err := client.CoreV1().Nodes().Get(ctx, m.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) || len(n.Spec.Taints) > 0 {
			return fmt.Errorf("node %s is not ready", m.name)
		}
	}
	return nil
}

func newClient() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// awaitServer waits for the API server, since components that do not find it at start retry
// only after seconds.
func awaitServer() {
	client, err := newClient()
	fail(err)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		cancel()
		if err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// load imports Docker images or archives on every node.
func load(images []string) error {
	var archives []string
	for _, image := range images {
		if _, err := os.Stat(image); err == nil {
			archives = append(archives, image)
			continue
		}
		f, err := os.CreateTemp("", "cluster-*.tar")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		defer f.Close()
		c := exec.Command("docker", "save", image)
		c.Stdout, c.Stderr = f, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("docker save %s: %w", image, err)
		}
		archives = append(archives, f.Name())
	}
	var imports errgroup.Group
	for _, m := range machines {
		if m.pods == "" {
			continue
		}
		imports.Go(func() error {
			for _, archive := range archives {
				c := exec.Command("ctr", "-a", m.socket(), "-n", "k8s.io", "images", "import", archive)
				if out, err := c.CombinedOutput(); err != nil {
					return fmt.Errorf("load %s on %s: %w: %s", archive, m.name, err, strings.TrimSpace(string(out)))
				}
			}
			return nil
		})
	}
	return imports.Wait()
}

func (m machine) pidFile() string { return m.dir() + "/pid" }

// pid returns the process ID of the machine's process 1 on this host, or 0.
func (m machine) pid() int {
	b, err := os.ReadFile(m.pidFile())
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil {
		return 0
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.HasSuffix(string(line), "\x00machine\x00"+m.name+"\x00") {
		return 0
	}
	return pid
}

func (m machine) socket() string { return fmt.Sprintf("/proc/%d/root%s", m.pid(), socket) }

// kill kills a machine or one of its processes.
func kill(name string, process ...string) error {
	m, err := machineOf(name)
	if err != nil {
		return err
	}
	pid := m.pid()
	if pid == 0 {
		return fmt.Errorf("machine %s does not run", name)
	}
	if len(process) == 0 {
		return syscall.Kill(pid, syscall.SIGKILL)
	}
	var children []byte
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return err
	}
	for _, thread := range threads { // each has those that it started
		some, _ := os.ReadFile(thread)
		children = append(children, some...)
	}
	for _, child := range strings.Fields(string(children)) {
		line, err := os.ReadFile("/proc/" + child + "/cmdline")
		if err != nil || !slices.Contains(strings.Split(string(line), "\x00"), process[0]) {
			continue
		}
		pid, err := strconv.Atoi(child)
		if err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	}
	return fmt.Errorf("machine %s has no process %q", name, process[0])
}

// down kills the machines, which ends their processes, mounts and networks, and removes
// their control groups and files.
func down() error {
	for _, m := range machines {
		if pid := m.pid(); pid != 0 {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	_ = ip("link del " + link) // also removed with control, a little later
	var err error
	for range 100 { // the kernel may still be cleaning up
		if err = errors.Join(removeCgroups(), os.RemoveAll(dir)); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func removeCgroups() error {
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		roots, err := filepath.Glob(pattern + cgroup)
		if err != nil {
			return err
		}
		for _, root := range roots {
			if err := removeCgroup(root); err != nil {
				return err
			}
		}
	}
	return nil
}

func removeCgroup(group string) error {
	entries, err := os.ReadDir(group)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(group + "/" + e.Name()); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
