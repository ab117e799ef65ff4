package kubernetes

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

func input() planInput {
	return planInput{
		run: "r", config: eval.Kubernetes{CPURequests: 0.5, RuntimeClass: "gvisor", Queue: "q", Tolerations: []eval.Toleration{{Key: "k", Operator: "Exists"}}},
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
	trial := &plan.Trial{Run: "r", Task: "t", Number: 1, Network: "airtight", MCPJSON: "{}", Agent: plan.Agent{Container: sandbox.Container{CPUs: 1, Memory: 64 << 20, Disk: 16 << 20}}, Servers: []plan.Server{
		{Name: "s0", Container: c, Services: []plan.Service{{Name: "db", Container: root, Writable: []string{"/data"}}}},
		{Name: "far", Remote: true}, {Name: "s1", Container: root, Writable: []string{"/srv"}},
	}}
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
		if *spec.RuntimeClassName != "gvisor" || p.pod.Labels[labelQueue] != "q" || p.pod.Labels[labelRun] != "r" || len(spec.Tolerations) != 2 || len(spec.InitContainers) > 0 && *spec.InitContainers[0].SecurityContext.AllowPrivilegeEscalation {
			t.Errorf("%s: %+v", p.container, p.pod)
		}
	}
}

func TestUsersAndDirectories(t *testing.T) {
	for i, want := range []struct{ user, insists, writable string }{
		{"7000:7000", "", "/home/agent /tmp /workspace"},
		{"1001:1002", "its image", "/home/agent /tmp /var/lib/x"},
		{"7000:7000", "", "/data /home/agent /tmp"},
		{"7000:7000", "", "/home/agent /srv /tmp"},
	} {
		p := planned(t)[i]
		if got := strings.Join(p.writable, " "); p.user != want.user || p.insists != want.insists || got != want.writable {
			t.Errorf("%s: user %s (%s), writable %s; want %+v", p.container, p.user, p.insists, got, want)
		}
	}
	in := input()
	in.images.Images["team/toor"] = guests.Image{Reference: "r", User: "toor", Users: map[string]string{"toor": "0:0"}}
	if _, err := in.plan(&plan.Trial{Number: 1}, plan.NamedContainer{Name: "s", Container: sandbox.Container{Image: "team/toor"}}); err == nil || !strings.Contains(err.Error(), "is root; name another user") {
		t.Errorf("a user that the image maps to root: %v", err)
	}
}

func TestRemoveInterface(t *testing.T) {
	in := input()
	in.config.RemoveInterface = true
	p, err := in.plan(&plan.Trial{Number: 1}, plan.NamedContainer{Name: "s", Container: sandbox.Container{CPUs: 1, Memory: 1 << 20}})
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
	trial := &plan.Trial{Servers: []plan.Server{{Name: "s", Container: sandbox.Container{Image: "no/such"}}}}
	if missing := input().images.Missing([]*plan.Trial{trial, trial}); !slices.Equal(missing, []string{"no/such"}) {
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
