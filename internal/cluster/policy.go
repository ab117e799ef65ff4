package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// enforce applies the cluster's NetworkPolicies to the pods of a node, using nftables.
//
// It filters forwarded traffic. Traffic between a pod and its own node is not forwarded, so
// no policy affects it, as specified. Traffic of an address that belongs to no known pod is
// dropped.
func enforce(ctx context.Context, name string) error {
	m, err := machineOf(name)
	if err != nil {
		return err
	}
	client, err := newClient()
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	notify()
	factory := informers.NewSharedInformerFactory(client, 0)
	policies := factory.Networking().V1().NetworkPolicies()
	pods := factory.Core().V1().Pods()
	namespaces := factory.Core().V1().Namespaces()
	for _, i := range []cache.SharedIndexInformer{policies.Informer(), pods.Informer(), namespaces.Informer()} {
		if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { notify() },
			UpdateFunc: func(any, any) { notify() },
			DeleteFunc: func(any) { notify() },
		}); err != nil {
			return err
		}
	}
	// Until the caches are synced, no address is known.
	if err := apply(ruleset(m, state{})); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var applied string
	for range changed {
		s := state{namespaces: map[string]labels.Set{}}
		if s.policies, err = policies.Lister().List(labels.Everything()); err != nil {
			return err
		}
		if s.pods, err = pods.Lister().List(labels.Everything()); err != nil {
			return err
		}
		all, err := namespaces.Lister().List(labels.Everything())
		if err != nil {
			return err
		}
		for _, n := range all {
			s.namespaces[n.Name] = n.Labels
		}
		rules := ruleset(m, s)
		if rules == applied {
			continue
		}
		if err := apply(rules); err != nil {
			return err
		}
		applied = rules
		time.Sleep(10 * time.Millisecond) // changes come in bursts
	}
	return nil
}

// apply replaces the node's table atomically.
func apply(rules string) error {
	c := exec.Command("nft", "-f", "-")
	c.Stdin = strings.NewReader(rules)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

// state is the input of the rules.
type state struct {
	policies   []*networkingv1.NetworkPolicy
	pods       []*corev1.Pod
	namespaces map[string]labels.Set
}

// ruleset returns the rules of a node in nft syntax.
func ruleset(m machine, s state) string {
	var out, in, chains strings.Builder
	slices.SortFunc(s.policies, func(a, b *networkingv1.NetworkPolicy) int {
		return cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	slices.SortFunc(s.pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	network := netip.MustParsePrefix(m.pods)
	taken := map[string]bool{}
	for _, p := range s.pods {
		address, err := netip.ParseAddr(p.Status.PodIP)
		if err != nil || !network.Contains(address) || !holdsAddress(p) || taken[p.Status.PodIP] {
			continue
		}
		taken[p.Status.PodIP] = true
		name := strings.ReplaceAll(p.Status.PodIP, ".", "_")
		fmt.Fprintf(&out, "%s : goto from_%s, ", p.Status.PodIP, name)
		fmt.Fprintf(&in, "%s : goto to_%s, ", p.Status.PodIP, name)
		fmt.Fprintf(&chains, "chain from_%s {\n%s}\nchain to_%s {\n%s}\n", name, s.egress(p), name, s.ingress(p))
	}
	return fmt.Sprintf(`table ip cluster {}
delete table ip cluster
table ip cluster {
chain services {
type nat hook prerouting priority dstnat; policy accept;
ip daddr %s tcp dport 443 dnat to %s
}
%schain from {
ip saddr vmap { %s }
drop
}
chain to {
ip daddr vmap { %s }
drop
}
chain forward {
type filter hook forward priority filter; policy accept;
ct state established,related accept
ip saddr %s jump from
ip daddr %s jump to
}
}
`, serviceAddress, strings.TrimPrefix(server, "https://"), chains.String(), elements(out), elements(in), m.pods, m.pods)
}

// elements returns the elements of a map, which must not be empty in nft.
func elements(b strings.Builder) string {
	return strings.TrimSuffix(cmp.Or(b.String(), "127.0.0.1 : drop"), ", ")
}

// holdsAddress reports whether the pod currently has its own address.
func holdsAddress(p *corev1.Pod) bool {
	return !p.Spec.HostNetwork && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// egress returns rules that accept what the pod may send, and drop the rest.
func (s state) egress(p *corev1.Pod) string {
	return s.rules(p, networkingv1.PolicyTypeEgress, func(b *strings.Builder, policy *networkingv1.NetworkPolicy) {
		for _, r := range policy.Spec.Egress {
			s.allow(b, policy.Namespace, "daddr", r.To, r.Ports)
		}
	})
}

// ingress returns rules that accept what the pod may receive, and drop the rest.
func (s state) ingress(p *corev1.Pod) string {
	return s.rules(p, networkingv1.PolicyTypeIngress, func(b *strings.Builder, policy *networkingv1.NetworkPolicy) {
		for _, r := range policy.Spec.Ingress {
			s.allow(b, policy.Namespace, "saddr", r.From, r.Ports)
		}
	})
}

// rules returns what allow writes for the policies of a type that select the pod, and a rule
// that drops the rest. Without such policies, everything is accepted.
func (s state) rules(p *corev1.Pod, t networkingv1.PolicyType, allow func(*strings.Builder, *networkingv1.NetworkPolicy)) string {
	var b strings.Builder
	isolated := false
	for _, policy := range s.policies {
		if policy.Namespace == p.Namespace && slices.Contains(policy.Spec.PolicyTypes, t) &&
			selects(&policy.Spec.PodSelector, p.Labels) {
			isolated = true
			allow(&b, policy)
		}
	}
	if !isolated {
		return "return\n"
	}
	return b.String() + "drop\n"
}

// allow writes a rule for every peer and port. A rule without peers, or without ports,
// applies to all of them.
func (s state) allow(b *strings.Builder, namespace, side string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) {
	matches := []string{""}
	if len(peers) > 0 {
		matches = nil
	}
	for _, peer := range peers {
		if block := peer.IPBlock; block != nil {
			match := fmt.Sprintf("ip %s %s ", side, block.CIDR)
			if len(block.Except) > 0 {
				match += fmt.Sprintf("ip %s != { %s } ", side, strings.Join(block.Except, ", "))
			}
			matches = append(matches, match)
			continue
		}
		for _, p := range s.pods {
			if holdsAddress(p) && p.Status.PodIP != "" && s.isPeer(p, namespace, peer) {
				matches = append(matches, fmt.Sprintf("ip %s %s ", side, p.Status.PodIP))
			}
		}
	}
	for _, match := range matches {
		if len(ports) == 0 {
			b.WriteString(match + "return\n")
		}
		for _, port := range ports {
			protocol := "tcp"
			if port.Protocol != nil {
				protocol = strings.ToLower(string(*port.Protocol))
			}
			switch {
			case port.Port == nil:
				fmt.Fprintf(b, "%smeta l4proto %s return\n", match, protocol)
			case port.Port.IntValue() == 0: // a named port: allows nothing here
				fmt.Fprintf(os.Stderr, "policy: port %s has a name, which is not supported\n", port.Port)
			case port.EndPort != nil:
				fmt.Fprintf(b, "%s%s dport %d-%d return\n", match, protocol, port.Port.IntValue(), *port.EndPort)
			default:
				fmt.Fprintf(b, "%s%s dport %d return\n", match, protocol, port.Port.IntValue())
			}
		}
	}
}

// isPeer reports whether a peer's selectors, in a policy of the namespace, select the pod.
func (s state) isPeer(p *corev1.Pod, namespace string, peer networkingv1.NetworkPolicyPeer) bool {
	if peer.NamespaceSelector == nil {
		return p.Namespace == namespace && selects(peer.PodSelector, p.Labels)
	}
	return selects(peer.NamespaceSelector, s.namespaces[p.Namespace]) &&
		(peer.PodSelector == nil || selects(peer.PodSelector, p.Labels))
}

func selects(selector *metav1.LabelSelector, set labels.Set) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(set)
}
