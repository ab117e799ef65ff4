package kubernetes

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/waza-isolate/waza/eval"
)

// rights are what a runner may do in the namespace of trials, and needs.
func rights() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create", "delete", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/attach", "pods/log"}, Verbs: []string{"create", "get"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "delete", "get", "list", "patch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases/finalizers"}, Verbs: []string{"update"}},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"}, Verbs: []string{"list", "watch"}},
	}
}

// namespaceOf returns the namespace of trials. Pods of trials keep to the restricted level; the
// init container that removes interfaces does not.
func namespaceOf(c eval.Kubernetes) *corev1.Namespace {
	level := "restricted"
	if c.RemoveInterface {
		level = "privileged"
	}
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(c), Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}},
	}
}

// launcherRights returns the rights that starting runners of shards needs in their namespace.
func launcherRights() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create", "delete", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/attach"}, Verbs: []string{"create", "get"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get"}},
	}
}

// rbac is the group of roles.
const rbac = "rbac.authorization.k8s.io"

func role(namespace, name string, rules []rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbac + "/v1", Kind: "Role"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Rules: rules,
	}
}

// Manifests returns, as YAML, all that an administrator installs once for runs: the namespace, its
// policy, and a role for who runs evals. With shards these are also the namespace of their
// runners, whose service account has that role, and a role for who starts them.
func Manifests(c eval.Kubernetes, shards bool) (string, error) {
	namespace := namespaceOf(c)
	objects := []any{namespace, denyAll(namespace.Name), role(namespace.Name, runnersAccount, rights())}
	if shards {
		runners := namespaceOf(eval.Kubernetes{Namespace: runnersOf(c)})
		objects = append(objects, runners, &corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Name: runnersAccount, Namespace: runners.Name},
		}, &rbacv1.RoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbac + "/v1", Kind: "RoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: runnersAccount, Namespace: namespace.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbac, Kind: "Role", Name: runnersAccount},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: runnersAccount, Namespace: runners.Name}},
		}, role(runners.Name, "waza-launcher", launcherRights()))
	}
	var documents []string
	for _, object := range objects {
		document, err := yaml.Marshal(object)
		if err != nil {
			return "", err
		}
		documents = append(documents, string(document))
	}
	return strings.Join(documents, "---\n"), nil
}

// lacking are rights that a runner needs and has not.
type lacking []string

func (l lacking) in(namespace string) string {
	return "in the namespace " + namespace + " you may not " + strings.Join(l, ", ")
}

// lackingRights asks the API which rights in a namespace the client lacks.
func lackingRights(ctx context.Context, client kubernetes.Interface, namespace string, rules []rbacv1.PolicyRule) (all lacking, err error) {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				name, sub, _ := strings.Cut(resource, "/")
				review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: namespace, Verb: verb, Group: rule.APIGroups[0], Resource: name, Subresource: sub,
					}},
				}, metav1.CreateOptions{})
				if err != nil {
					return nil, err
				}
				if !review.Status.Allowed {
					all = append(all, verb+" "+resource)
				}
			}
		}
	}
	return all, nil
}

// Finding is one thing that [Examine] looked at.
type Finding struct {
	Name    string
	Message string
	Fix     string // what to do; empty if it is well
}

// Examine looks at what a run needs of the cluster, or only at what who starts runners of shards
// needs, and changes nothing.
func Examine(ctx context.Context, c eval.Kubernetes, shards bool) ([]Finding, error) {
	config, client, namespace, err := connect(c)
	if err != nil {
		return nil, err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("the cluster at %s does not answer: %w", config.Host, err)
	}
	all := []Finding{{"cluster", "Kubernetes " + version.GitVersion + " at " + config.Host, ""}}
	if shards {
		found, err := examineRunners(ctx, client, c)
		if err != nil {
			return all, err
		}
		return append(all, found), nil
	}
	lacking, err := lackingRights(ctx, client, namespace, rights())
	if err != nil {
		return all, err
	}
	if len(lacking) > 0 {
		all = append(all, Finding{"rights", lacking.in(namespace), "Have an administrator bind you to the role that waza doctor --on kubernetes --print prints."})
		return all, nil
	}
	all = append(all, Finding{"rights", "all that a run needs in the namespace " + namespace, ""})
	policies, err := client.NetworkingV1().NetworkPolicies(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return all, err
	}
	found := Finding{"network", "the policies of the namespace " + namespace + " deny all connections; whether the cluster enforces them, a run's certificate shows", ""}
	if why := judgePolicies(policies.Items); why != "" {
		found = Finding{"network", why, "Apply what waza doctor --on kubernetes --print prints."}
	}
	return append(all, found), nil
}
