package kubernetes

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/kube"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// impersonate has clients reach the cluster's API as a user from now on.
func impersonate(t *testing.T, user string) {
	t.Helper()
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range config.AuthInfos {
		who.Impersonate = user
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
}

// bind gives a user of a namespace the role that Manifests prints, without one right, as VERB RESOURCE.
func bind(t *testing.T, client kubernetes.Interface, namespace, user, without string) {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}}
	for _, rule := range rights() {
		for _, resource := range rule.Resources {
			one := rule
			one.Resources = []string{resource}
			one.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(verb string) bool { return verb+" "+resource == without })
			if len(one.Verbs) > 0 {
				role.Rules = append(role.Rules, one)
			}
		}
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}
	_, err := client.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{})
	if err == nil {
		_, err = client.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.RbacV1().Roles(namespace).Delete(context.Background(), user, metav1.DeleteOptions{})
		_ = client.RbacV1().RoleBindings(namespace).Delete(context.Background(), user, metav1.DeleteOptions{})
	})
}

// The role that waza doctor prints is all that a run needs; whoever lacks one of its rights is told
// which, by the run and by waza doctor.
func TestRights(t *testing.T) {
	admin := openIn(t, suiteProgram(t), "waza-rights")
	for user, without := range map[string]string{
		"has-all": "nothing", "has-none": "", "no-pods": "create pods", "no-attach": "get pods/attach",
		"no-log": "get pods/log", "no-events": "list events",
		"no-watch": "watch networkpolicies", "no-finalizers": "update leases/finalizers",
	} {
		t.Run(user, func(t *testing.T) {
			if without != "" {
				bind(t, admin.client, admin.namespace, user, without)
			}
			impersonate(t, user)
			found, err := Examine(t.Context(), admin.config)
			if err != nil || len(found) < 2 {
				t.Fatalf("waza doctor finds %+v, %v", found, err)
			}
			err = openOne(t, admin)
			if without == "nothing" {
				if err != nil || found[1].Fix != "" {
					t.Errorf("with the whole role: %v; waza doctor finds %+v", err, found[1])
				}
				return
			}
			want := "in the namespace waza-rights you may not " + without
			if found[1].Fix == "" || !strings.HasPrefix(found[1].Message, want) || err == nil || !strings.HasPrefix(err.Error(), found[1].Message+"; have an administrator bind you") {
				t.Errorf("the run says %q and waza doctor finds %+v, want %q", err, found[1], want)
			}
		})
	}
}

// openOne opens a backend like another, starts a trial's pods and ends both.
func openOne(t *testing.T, like *Backend) error {
	t.Helper()
	b, err := Open(t.Context(), Options{Run: like.run + "-2", Config: like.config, Images: like.images, AllowWeak: like.weak})
	if err != nil {
		return err
	}
	defer func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	s, err := b.Open(t.Context(), trialOf(b, "one"), func(evidence.Event) {})
	if err != nil {
		return err
	}
	return s.Close(t.Context())
}

// Pods of trials keep to the level "restricted". The init container that removes interfaces keeps to
// none but "privileged", and who lacks that is told what to apply.
func TestPodSecurity(t *testing.T) {
	program := suiteProgram(t)
	for _, level := range []string{"restricted", "baseline"} {
		b := openIn(t, program, "waza-"+level)
		label := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"` + level + `"}}}`
		if _, err := b.client.CoreV1().Namespaces().Patch(t.Context(), b.namespace, mergePatch, []byte(label), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		stand(t, b, "one")
		removes := open(t, program, Options{Config: kube.Settings{Namespace: b.namespace, CPURequests: 0.02, RemoveInterface: true}, AllowWeak: []string{probe.HostTCP}})
		_, err := removes.Open(t.Context(), trialOf(removes), func(evidence.Event) {})
		want := "the namespace waza-" + level + ` does not allow it: violates PodSecurity "` + level + ":latest\": "
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "; apply what waza doctor --on kubernetes --print --remove-interface prints") {
			t.Errorf("%s: %v, want %q", level, err, want)
		}
	}
}
