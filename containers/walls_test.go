package containers

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
)

// buildImage builds an image from Debian and some lines of a Dockerfile.
func buildImage(t *testing.T, lines string) string {
	t.Helper()
	dockertest.Image(t, debian)
	engine := dockertest.Engine(t)
	var sources bytes.Buffer
	out := tar.NewWriter(&sources)
	dockerfile := "FROM " + debian + "\n" + lines
	if err := out.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(dockerfile))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(out, dockerfile); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	ref := "waza-test/" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")) + ":latest"
	built, err := engine.ImageBuild(within(t), &sources, client.ImageBuildOptions{Tags: []string{ref}, Remove: true, ForceRemove: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = built.Body.Close() }()
	if log, err := io.ReadAll(built.Body); err != nil || bytes.Contains(log, []byte(`"error"`)) {
		t.Fatalf("build: %v\n%s", err, log)
	}
	t.Cleanup(func() { dockertest.DropImage(t, ref) })
	return ref
}

// What the engine was really told, for every container of a trial.
func TestWallsOnTheEngine(t *testing.T) {
	greedy := buildImage(t, "USER root\nVOLUME /var/lib/greedy /srv\nENV SECRET_OF_THE_IMAGE=1\n")
	bothNetworks(t, func(t *testing.T, kind string) {
		b := openRun(t)
		s, _ := stand(t, b, trialOf(b, kind, debian, "", greedy))
		all := inspectAll(t, b.run)
		want := map[string]int{roleLease: 1, sandbox.RoleAgent: 1, sandbox.RoleServer: 3}
		for role, count := range want {
			if len(all[role]) != count {
				t.Errorf("%d containers of role %s, want %d", len(all[role]), role, count)
			}
			for _, c := range all[role] {
				checkContainer(t, c, b.run)
			}
		}
		for _, c := range all[sandbox.RoleServer] {
			if !c.Config.NetworkDisabled || len(c.NetworkSettings.Networks) != 0 {
				t.Errorf("%s is on networks %v", c.Name, c.NetworkSettings.Networks)
			}
		}
		if kind == sandbox.NetworkBridge {
			checkNetwork(t, s.plan.network)
		} else if agent := all[sandbox.RoleAgent][0]; !agent.Config.NetworkDisabled {
			t.Errorf("the agent of an airtight trial is on %s", agent.HostConfig.NetworkMode)
		}
		checkUsers(t, s)
		mustSh(t, s, "s2", "echo kept in memory > /var/lib/greedy/file")
	})
}

// checkUsers checks that programs of every container are a user of their container alone, and find
// themselves in its accounts.
func checkUsers(t *testing.T, s *trialSandbox) {
	t.Helper()
	seen := map[string]string{}
	for _, c := range s.plan.containers {
		if c.Name == "s1" { // without a shell
			continue
		}
		uid := mustSh(t, s, c.Name, "id -u")
		if n, err := strconv.Atoi(uid); err != nil || n < highUsers || seen[uid] != "" {
			t.Errorf("%s runs as %s, and so does %q", c.Name, uid, seen[uid])
		}
		seen[uid] = c.Name
		if got, want := mustSh(t, s, c.Name, "id -un; id -gn; getent passwd $(id -u)"), "waza\nwaza\nwaza:x:"+uid+":"+uid+"::"+sandbox.HomeDir+":/bin/sh"; got != want {
			t.Errorf("%s finds itself as %q, want %q", c.Name, got, want)
		}
	}
}

func checkContainer(t *testing.T, c container.InspectResponse, run string) {
	t.Helper()
	h := c.HostConfig
	user, _, _ := strings.Cut(c.Config.User, ":")
	filtered := c.Config.Labels[labelRole] == roleLease
	for _, option := range h.SecurityOpt {
		filtered = filtered || strings.HasPrefix(option, "seccomp={")
	}
	checks := map[string]bool{
		"a user other than root":         user != "" && user != "0" && user != "root",
		"no capability":                  len(h.CapDrop) == 1 && h.CapDrop[0] == "ALL" && len(h.CapAdd) == 0 && !h.Privileged,
		"no new privileges":              h.SecurityOpt[0] == "no-new-privileges",
		"a seccomp filter of ours":       filtered,
		"a read-only root":               h.ReadonlyRootfs,
		"memory and no swap":             h.Memory > 0 && h.MemorySwap == h.Memory,
		"a CPU limit":                    h.NanoCPUs > 0,
		"a process limit":                h.PidsLimit != nil && *h.PidsLimit > 0,
		"limits of open files and cores": len(h.Ulimits) == 3,
		"no log":                         h.LogConfig.Type == "none",
		"removal at its end":             h.AutoRemove,
		"labels":                         c.Config.Labels[labelRun] == run && c.Config.Labels[labelTrial] != "",
		"no published port":              len(h.PortBindings) == 0,
		"no bind mount":                  len(h.Binds) == 0,
	}
	for what, ok := range checks {
		if !ok {
			t.Errorf("%s lacks %s: %+v", c.Name, what, h)
		}
	}
	for _, m := range c.Mounts {
		if m.Destination == path.Dir(sandbox.SocketPath) {
			checkSocket(t, c.Name, m)
			continue
		}
		if m.Type == mount.TypeVolume && !strings.HasPrefix(m.Name, "waza-files-") && !strings.HasPrefix(m.Name, "waza-workspace-") {
			t.Errorf("%s has an anonymous volume at %s", c.Name, m.Destination)
		}
		if m.RW && m.Name != filesVolume(run) || m.RW && c.Config.Labels[labelRole] != roleLease {
			t.Errorf("%s may write to %s %s at %s", c.Name, m.Type, m.Name, m.Destination)
		}
		if m.Type == mount.TypeBind && !strings.Contains(m.Source, "/"+filesVolume(run)+"/") {
			t.Errorf("%s has %s of the host at %s", c.Name, m.Source, m.Destination)
		}
	}
}

// checkSocket checks that the directory of a container's socket was made for it alone, and is gone
// from the host since the guest has connected.
func checkSocket(t *testing.T, container string, m container.MountPoint) {
	t.Helper()
	if m.Type != mount.TypeBind || m.RW || !strings.HasPrefix(m.Source, filepath.Join(os.TempDir(), "waza-mux-")) {
		t.Errorf("%s has %+v for its socket", container, m)
	}
	if _, err := os.Lstat(m.Source); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket of %s is still at %s: %v", container, m.Source, err)
	}
}

func checkNetwork(t *testing.T, name string) {
	t.Helper()
	found, err := dockertest.Engine(t).NetworkInspect(t.Context(), name, client.NetworkInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := found.Network
	checks := map[string]bool{
		"is internal":                n.Internal,
		"has no IPv6":                !n.EnableIPv6,
		"has no address on the host": n.Options["com.docker.network.bridge.inhibit_ipv4"] == "true",
		"is one /29":                 len(n.IPAM.Config) == 1 && n.IPAM.Config[0].Subnet.Bits() == 29,
		"holds the agent alone":      len(n.Containers) == 1,
		"has labels":                 n.Labels[labelRun] != "" && n.Labels[labelTrial] == "task/1",
		"cannot be joined at will":   !n.Attachable && !n.Ingress,
	}
	for what, ok := range checks {
		if !ok {
			t.Errorf("not so: the task network %s: %+v", what, n)
		}
	}
}

// The same walls, as a program inside meets them.
func TestWallsFromInside(t *testing.T) {
	bothNetworks(t, func(t *testing.T, kind string) {
		b := openRun(t)
		s, _ := stand(t, b, trialOf(b, kind, debian))
		for _, ctr := range []string{sandbox.Agent, "s0"} {
			for _, script := range []string{
				"echo x > /file", "echo x > /opt/waza/waza", "echo x > /etc/passwd", "mkdir /x",
				"mount -t tmpfs none /tmp", "chown root /tmp", "su -c true",
				"cat /proc/1/environ", "ls /proc/1/fd/", "ls /var/run/docker.sock",
			} {
				if e := sh(t, s, ctr, script); e.err != nil || e.exit.Code == 0 {
					t.Errorf("%s: %s: exit %+v, %v\n%s", ctr, script, e.exit, e.err, e.stdout)
				}
			}
			mustSh(t, s, ctr, "kill -9 1")
			mustSh(t, s, ctr, "echo '#!/bin/sh' > /tmp/x && chmod +x /tmp/x && /tmp/x && touch "+sandbox.HomeDir)
		}
	})
}

// A 32-bit program, whose calls have other numbers, is ended at its first call, where the kernel
// runs it at all.
func TestAttacks_ProgramOf32Bits(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("32-bit programs are built for amd64 alone")
	}
	b := openRun(t)
	s, _ := stand(t, b, trialOf(b, sandbox.NetworkAirtight, debian))
	echo := filepath.Join(t.TempDir(), "echo")
	compile := exec.Command("go", "build", "-o", echo, "./testdata/echo")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=386")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := s.Put(within(t), sandbox.Agent, "/tmp", bytes.NewReader(archive(t, echo))); err != nil {
		t.Fatal(err)
	}
	code := 128 + int(unix.SIGSYS)
	if err := exec.Command(echo).Run(); errors.Is(err, unix.ENOEXEC) {
		code = 126 // what sh makes of that error
	}
	e := sh(t, s, sandbox.Agent, "/tmp/echo; echo ended with $?")
	if want := fmt.Sprintf("ended with %d\n", code); e.stdout != want {
		t.Errorf("a 32-bit program %q, want %q", e.stdout, want)
	}
}

// mcp.json can be read by the agent and neither be changed nor replaced.
func TestMCPConfigIsReadOnly(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	trial := trialOf(b, sandbox.NetworkAirtight)
	trial.Containers[0].MCPConfig = "{\"mcpServers\":{\"files\":{\"url\":\"http://files/mcp\"}}}\n"
	s, _ := stand(t, b, trial)
	for _, script := range []string{
		"echo mine > $F", "echo mine >> $F", "rm -f $F", "mv $F /tmp/x", "ln -sf /tmp/x $F",
		"cp /etc/hostname $F", "chmod 666 $F", "touch /etc/waza/other", "mv /etc/waza /etc/else", "umount /etc/waza",
	} {
		if e := sh(t, s, sandbox.Agent, script, "F="+sandbox.MCPConfigPath); e.exit.Code == 0 {
			t.Errorf("%s: succeeded", script)
		}
	}
	if got := mustSh(t, s, sandbox.Agent, "cat "+sandbox.MCPConfigPath); got+"\n" != trial.Containers[0].MCPConfig {
		t.Errorf("mcp.json is %q, want %q", got, trial.Containers[0].MCPConfig)
	}
}
