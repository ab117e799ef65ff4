package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// policyName is the policy that closes the network of every pod of the namespace.
const policyName = "waza-deny-all"

// denyAll returns the one policy of a namespace of trials.
func denyAll(namespace string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: policyName, Namespace: namespace},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}},
	}
}

// judgePolicies returns why the policies of a namespace leave the network of a pod open; empty
// if they close it. Policies add up: any other with a rule may open what this one closes.
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

// policy is what the watch of policies has found.
type policy struct {
	cut func(why string) // ends what runs; called once the network was opened

	mu  sync.Mutex
	why string // the network is open; empty if it is not; guarded by mu
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

// broken returns why pods' network is open; empty if it is not.
func (p *policy) broken() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// explain says what to do about an open network.
func explain(namespace, why string) error {
	return fmt.Errorf("the namespace %s does not close the network of its pods: %s; apply what waza doctor --on kubernetes --print prints", namespace, strings.TrimSuffix(why, "."))
}
