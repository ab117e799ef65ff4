package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// policyName is the name of the policy that denies all traffic of every pod in the namespace.
const policyName = "waza-deny-all"

// denyAll returns the policy of a namespace of trials.
func denyAll(namespace string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: policyName, Namespace: namespace},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}},
	}
}

// judgePolicies returns why the policies of a namespace leave the network of a pod open, or "" if
// they do not. Policies are additive: any other policy with a rule may allow traffic that this one
// denies.
func judgePolicies(all []networkingv1.NetworkPolicy) string {
	closed := false
	for _, p := range all {
		spec := p.Spec
		if len(spec.Ingress)+len(spec.Egress) > 0 {
			return fmt.Sprintf("the NetworkPolicy %q allows connections", p.Name)
		}
		everything := len(spec.PodSelector.MatchLabels)+len(spec.PodSelector.MatchExpressions) == 0
		if everything && slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeIngress) && slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			closed = true
		}
	}
	if !closed {
		return "no NetworkPolicy denies all connections (" + policyName + " is missing)"
	}
	return ""
}

// policy is the state of the namespace's policies.
type policy struct {
	cut func(why string) // ends all containers; called once, when the network was opened

	mu  sync.Mutex
	why string // why the network is open, or ""; guarded by mu
}

func (p *policy) take(all []networkingv1.NetworkPolicy) {
	why := judgePolicies(all)
	p.mu.Lock()
	p.why = why
	p.mu.Unlock()
	if why != "" {
		p.cut(why)
	}
}

// broken returns why the pods' network is open, or "".
func (p *policy) broken() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// explain returns an error with advice about an open network.
func explain(namespace, why string) error {
	return fmt.Errorf("the namespace %s does not close the network of its pods: %s; apply what waza doctor --on kubernetes --print prints", namespace, strings.TrimSuffix(why, "."))
}
