package kubernetes

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/kube"
)

func input() planInput {
	return planInput{
		run: "r", config: kube.Settings{CPURequests: 0.5, RuntimeClass: "gvisor", Tolerations: []kube.Toleration{{Key: "k", Operator: "Exists"}}},
		images: guests.Images{Images: map[string]guests.Image{
			"":          {Reference: "waza-guest:1"},
			"team/node": {Reference: "registry/node@sha256:1", User: "1001:1002", Volumes: []string{"/var/lib/x"}},
			"team/root": {Reference: "registry/root@sha256:2", User: "0"},
		}},
		user: func() string { return "7000:7000" }, newName: func() string { return "waza-r-1" },
	}
}

func planned(t *testing.T) []podPlan {
	t.Helper()
	c := sandbox.Container{Image: "team/node", CPUs: 1, Memory: 64 << 20, Disk: 16 << 20, Scratch: 8 << 20}
	root := c
	root.Image = "team/root"
	agent := sandbox.Container{CPUs: 1, Memory: 64 << 20, Disk: 16 << 20}
	trial := &sandbox.Spec{
		Run: "r", Task: "t", Number: 1, Network: sandbox.NetworkAirtight,
		Containers: []sandbox.ContainerSpec{
			sandbox.AgentContainer(agent, "tmpfs", "{}"),
			{Name: "s0", Role: sandbox.RoleServer, Container: c},
			{Name: "s0/db", Role: sandbox.RoleService, Container: root, Writable: []string{"/data"}},
			{Name: "s1", Role: sandbox.RoleServer, Container: root, Writable: []string{"/srv"}},
		},
		Reach: []sandbox.Edge{
			{From: sandbox.Agent, Name: "s0", To: "s0"}, {From: sandbox.Agent, Name: "far", To: "far"}, {From: sandbox.Agent, Name: "s1", To: "s1"},
			{From: "s0", Name: "db", To: "s0/db"},
		},
	}
	pods, err := planTrial(trial, input())
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

// Every pod has the walls, whatever runs in it.
func TestWallsOfPods(t *testing.T) {
	pods := planned(t)
	if len(pods) != 4 {
		t.Fatalf("%d pods, want those of agent, s0, its service and s1", len(pods))
	}
	for _, p := range pods {
		spec, walls := p.pod.Spec, p.pod.Spec.Containers[0].SecurityContext
		if *spec.AutomountServiceAccountToken || *spec.EnableServiceLinks || spec.RestartPolicy != corev1.RestartPolicyNever || spec.HostNetwork || spec.HostPID || spec.HostIPC {
			t.Errorf("%s: %+v", p.container, spec)
		}
		if !*spec.SecurityContext.RunAsNonRoot || *spec.SecurityContext.RunAsUser == 0 || spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: %+v", p.container, spec.SecurityContext)
		}
		if *walls.AllowPrivilegeEscalation || *walls.Privileged || !*walls.ReadOnlyRootFilesystem || !slices.Equal(walls.Capabilities.Drop, []corev1.Capability{"ALL"}) || walls.Capabilities.Add != nil {
			t.Errorf("%s: %+v", p.container, walls)
		}
		limits := spec.Containers[0].Resources
		if limits.Limits.Cpu().MilliValue() != 1000 || limits.Requests.Cpu().MilliValue() != 500 || !limits.Limits.Memory().Equal(*limits.Requests.Memory()) {
			t.Errorf("%s: %+v", p.container, limits)
		}
		for _, v := range spec.Volumes {
			if v.DownwardAPI == nil && (v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory || v.EmptyDir.SizeLimit.Value() == 0) {
				t.Errorf("%s: volume %+v", p.container, v)
			}
		}
		if *spec.RuntimeClassName != "gvisor" || p.pod.Labels[labelRun] != "r" || len(spec.Tolerations) != 2 || len(spec.InitContainers) > 0 && *spec.InitContainers[0].SecurityContext.AllowPrivilegeEscalation {
			t.Errorf("%s: %+v", p.container, p.pod)
		}
	}
}

func TestUsersAndDirectories(t *testing.T) {
	for i, want := range []struct{ user, insists, writable string }{
		{"7000:7000", "", "/dev/shm /home/agent /tmp /workspace"},
		{"1001:1002", "its image", "/dev/shm /home/agent /tmp /var/lib/x"},
		{"7000:7000", "", "/data /dev/shm /home/agent /tmp"},
		{"7000:7000", "", "/dev/shm /home/agent /srv /tmp"},
	} {
		p := planned(t)[i]
		if got := strings.Join(p.writable, " "); p.user != want.user || p.insists != want.insists || got != want.writable {
			t.Errorf("%s: user %s (%s), writable %s; want %+v", p.container, p.user, p.insists, got, want)
		}
	}
	in := input()
	p, err := in.plan(&sandbox.Spec{Number: 1}, sandbox.ContainerSpec{Name: "s", Container: sandbox.Container{Memory: 64 << 20, ShmSize: 32 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	mount, volume := p.pod.Spec.Containers[0].VolumeMounts[0], p.pod.Spec.Volumes[0]
	if mount.MountPath != "/dev/shm" || mount.SubPath != "" || mount.Name != volume.Name || volume.EmptyDir.Medium != corev1.StorageMediumMemory || volume.EmptyDir.SizeLimit.Value() != 32<<20 || len(p.pod.Spec.InitContainers) != 0 {
		t.Errorf("shm_size of 32 MiB becomes %+v, %+v", mount, volume)
	}
	in.images.Images["team/toor"] = guests.Image{Reference: "r", User: "toor", Users: map[string]string{"toor": "0:0"}}
	if _, err := in.plan(&sandbox.Spec{Number: 1}, sandbox.ContainerSpec{Name: "s", Container: sandbox.Container{Image: "team/toor"}}); err == nil || !strings.Contains(err.Error(), "is root; name another user") {
		t.Errorf("a user that the image maps to root: %v", err)
	}
}

// What runs with more rights than a server is of our image, whatever the server's, and no node pulls
// what only a name says.
func TestImagesOfContainers(t *testing.T) {
	in := input()
	in.config.RemoveInterface = true
	own, foreign := "sha256:"+strings.Repeat("1", 64), "registry.example/x@sha256:"+strings.Repeat("2", 64)
	in.images.Images = map[string]guests.Image{"": {Reference: own}, "x": {Reference: foreign, Volumes: []string{"/data"}}}
	p, err := in.plan(&sandbox.Spec{Number: 1}, sandbox.ContainerSpec{Name: "s", Container: sandbox.Container{Image: "x", CPUs: 1, Memory: 1 << 20, Disk: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	guest := p.pod.Spec.Containers[0]
	if guest.Image != foreign || guest.ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("the server has %s, pulled %s", guest.Image, guest.ImagePullPolicy)
	}
	for _, c := range p.pod.Spec.InitContainers {
		if c.Image != own || c.ImagePullPolicy != corev1.PullNever || !reflect.DeepEqual(c.Resources, guest.Resources) {
			t.Errorf("%s has %s, pulled %s, and %v", c.Name, c.Image, c.ImagePullPolicy, c.Resources)
		}
	}
	if len(p.pod.Spec.InitContainers) != 2 {
		t.Errorf("%d init containers", len(p.pod.Spec.InitContainers))
	}
}

func TestRemoveInterface(t *testing.T) {
	in := input()
	in.config.RemoveInterface = true
	p, err := in.plan(&sandbox.Spec{Number: 1}, sandbox.ContainerSpec{Name: "s", Container: sandbox.Container{CPUs: 1, Memory: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.pod.Spec.InitContainers) != 1 || p.pod.Spec.Containers[0].SecurityContext.Capabilities.Add != nil {
		t.Errorf("%+v", p.pod.Spec)
	}
	if admin := p.pod.Spec.InitContainers[0].SecurityContext; *admin.RunAsUser != 0 || !slices.Equal(admin.Capabilities.Add, []corev1.Capability{"NET_ADMIN"}) || *admin.Privileged {
		t.Errorf("%+v", admin)
	}
}

func TestMissingImages(t *testing.T) {
	trial := &sandbox.Spec{Containers: []sandbox.ContainerSpec{{Name: "s", Container: sandbox.Container{Image: "no/such"}}}}
	if missing := input().images.Missing([]*sandbox.Spec{trial, trial}); !slices.Equal(missing, []string{"no/such"}) {
		t.Errorf("missing %q", missing)
	}
	if _, err := planTrial(trial, input()); err == nil {
		t.Error("a pod of an image that is not there is planned")
	}
}

func TestJudgePolicies(t *testing.T) {
	allows := denyAll("n")
	allows.Name, allows.Spec.Egress = "lets-out", []networkingv1.NetworkPolicyEgressRule{{}}
	some := denyAll("n")
	some.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	half := denyAll("n")
	half.Spec.PolicyTypes = half.Spec.PolicyTypes[:1]
	for name, test := range map[string]struct {
		policies []networkingv1.NetworkPolicy
		want     string
	}{
		"none":        {nil, "is missing"},
		"closed":      {[]networkingv1.NetworkPolicy{*denyAll("n")}, ""},
		"one allows":  {[]networkingv1.NetworkPolicy{*denyAll("n"), *allows}, "lets-out"},
		"some pods":   {[]networkingv1.NetworkPolicy{*some}, "is missing"},
		"one way":     {[]networkingv1.NetworkPolicy{*half}, "is missing"},
		"and another": {[]networkingv1.NetworkPolicy{*some, *denyAll("n")}, ""},
	} {
		if got := judgePolicies(test.policies); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
