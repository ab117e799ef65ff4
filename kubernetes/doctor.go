package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/kube"
)

// rights are the rules that a runner needs in the namespace of trials.
func rights() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create", "delete", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/attach"}, Verbs: []string{"create", "get"}},
		{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "delete", "get", "list", "patch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases/finalizers"}, Verbs: []string{"update"}},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"}, Verbs: []string{"list", "watch"}},
	}
}

// namespaceOf returns the namespace of trials. Pods of trials comply with the restricted Pod
// Security Standard; the init container that removes interfaces does not.
func namespaceOf(c kube.Settings) *corev1.Namespace {
	level := "restricted"
	if c.RemoveInterface {
		level = "privileged"
	}
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(c), Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}},
	}
}

// role returns the role of users who run evals.
func role(namespace string) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: metav1.ObjectMeta{Name: "waza-runner", Namespace: namespace}, Rules: rights(),
	}
}

// quota returns the total limits for all pods of a namespace, for an administrator to adapt. It
// forbids services and claims: a run does not need them, and they reach beyond their namespace.
func quota(namespace string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: metav1.ObjectMeta{Name: "waza", Namespace: namespace},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("64"), corev1.ResourceServices: resource.MustParse("0"), corev1.ResourcePersistentVolumeClaims: resource.MustParse("0"),
			corev1.ResourceLimitsCPU: resource.MustParse("64"), corev1.ResourceLimitsMemory: resource.MustParse("64Gi"),
		}},
	}
}

// limits returns the maximum limits of one container in a namespace.
func limits(namespace string) *corev1.LimitRange {
	return &corev1.LimitRange{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"},
		ObjectMeta: metav1.ObjectMeta{Name: "waza", Namespace: namespace},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")},
		}}},
	}
}

// examineRoom checks the limits for pods in a namespace.
func examineRoom(ctx context.Context, client kubernetes.Interface, namespace string, all *sandbox.Checks) {
	quotas, err := client.CoreV1().ResourceQuotas(namespace).List(ctx, metav1.ListOptions{})
	ranges, errRanges := client.CoreV1().LimitRanges(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || errRanges != nil {
		all.OK("room", "whether a ResourceQuota and a LimitRange bound the pods of the namespace "+namespace+", you may not look at")
		return
	}
	var found []string
	for _, q := range quotas.Items {
		found = append(found, "ResourceQuota "+q.Name+": "+amounts(q.Spec.Hard))
	}
	for _, r := range ranges.Items {
		for _, of := range r.Spec.Limits {
			found = append(found, "LimitRange "+r.Name+": a "+strings.ToLower(string(of.Type))+" at most "+amounts(of.Max))
		}
	}
	if len(quotas.Items) == 0 || len(ranges.Items) == 0 {
		all.Warn("room", "the namespace "+namespace+" lacks a ResourceQuota or a LimitRange: its runs may take the whole cluster",
			"Apply those that waza doctor --on kubernetes --print prints, with figures of your own.")
		return
	}
	all.OK("room", strings.Join(found, "; ")+". Unless its eval says otherwise, a trial takes 1 CPU and 1Gi for its agent, and 1 CPU and 512Mi for each server")
}

func amounts(of corev1.ResourceList) string {
	var all []string
	for name, amount := range of {
		all = append(all, fmt.Sprintf("%s %s", name, amount.String()))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// Manifests returns, as YAML, what an administrator installs once for the runs of a team: the
// namespace, its policy, limits for its pods, and a role for users who run evals.
func Manifests(c kube.Settings) (string, error) {
	namespace := namespaceOf(c)
	objects := []any{namespace, denyAll(namespace.Name), quota(namespace.Name), limits(namespace.Name), role(namespace.Name)}
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

// lacking lists rights that a runner needs and does not have.
type lacking []string

func (l lacking) in(namespace string) string {
	return "in the namespace " + namespace + " you may not " + strings.Join(l, ", ")
}

// lackingRights asks the API which of the rights that a runner needs in a namespace the client
// lacks.
func lackingRights(ctx context.Context, client kubernetes.Interface, namespace string) (all lacking, err error) {
	for _, rule := range rights() {
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

// Examine checks what a run needs of the cluster. It changes nothing.
func Examine(ctx context.Context, c kube.Settings) (all sandbox.Checks, err error) {
	config, client, namespace, err := connect(c)
	if err != nil {
		return nil, err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("the cluster at %s does not answer: %w", config.Host, err)
	}
	all.OK("cluster", "Kubernetes "+version.GitVersion+" at "+config.Host)
	lacking, err := lackingRights(ctx, client, namespace)
	if err != nil {
		return all, err
	}
	if len(lacking) > 0 {
		all.Fail("rights", lacking.in(namespace), "Have an administrator bind you to the role that waza doctor --on kubernetes --print prints.")
		return all, nil
	}
	all.OK("rights", "all that a run needs in the namespace "+namespace)
	policies, err := client.NetworkingV1().NetworkPolicies(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return all, err
	}
	if why := judgePolicies(policies.Items); why != "" {
		all.Fail("network", why, "Apply what waza doctor --on kubernetes --print prints.")
	} else {
		all.OK("network", "the policies of the namespace "+namespace+" deny all connections; whether the cluster enforces them, a run's certificate shows")
	}
	examineUsers(ctx, client, namespace, &all)
	examineRoom(ctx, client, namespace, &all)
	return all, nil
}
