// Package kube defines the settings of pods, in which a cluster runs the containers of sandboxes.
package kube

import (
	"cmp"
	"fmt"
	"slices"
)

// Settings is where and how pods run, as config.isolation.kubernetes of an eval and the user's own
// configuration say.
type Settings struct {
	Context         string            `json:"context,omitempty" jsonschema:"context in KUBECONFIG; default the current context"`
	Namespace       string            `json:"namespace,omitempty" jsonschema:"namespace of the pods; default waza"`
	Images          string            `json:"images,omitempty" jsonschema:"file written by waza images that lists the cluster's images; relative to the eval; default waza.images.json"`
	NodeSelector    map[string]string `json:"node_selector,omitempty" jsonschema:"nodeSelector of the pods"`
	Tolerations     []Toleration      `json:"tolerations,omitempty" jsonschema:"tolerations of the pods"`
	RuntimeClass    string            `json:"runtime_class,omitempty" jsonschema:"RuntimeClass of the pods, such as gvisor"`
	CPURequests     float64           `json:"cpu_requests,omitempty" over:"0" max:"1" jsonschema:"CPU request of each container, as a share of its limit; default 1"`
	RemoveInterface bool              `json:"remove_interface,omitempty" jsonschema:"remove the network interface of each pod before its guest starts; the namespace must allow NET_ADMIN for an init container"`
}

// Settle returns the settings of a run's pods: those of own, the user's configuration, of which from
// is the place. An eval may be a stranger's. It must not choose on which nodes its pods run, in whose
// namespace and by which runtime, so it is an error if it asks for anything that own does not have.
func (s Settings) Settle(own Settings, from string) (Settings, error) {
	own.Namespace = cmp.Or(own.Namespace, "waza")
	for _, asks := range []struct {
		key   string
		other bool
	}{
		{"context", s.Context != "" && s.Context != own.Context},
		{"namespace", s.Namespace != "" && s.Namespace != own.Namespace},
		{"runtime_class", s.RuntimeClass != "" && s.RuntimeClass != own.RuntimeClass},
		{"node_selector", !isPartOf(s.NodeSelector, own.NodeSelector)},
		{"tolerations", slices.ContainsFunc(s.Tolerations, func(t Toleration) bool { return !slices.Contains(own.Tolerations, t) })},
	} {
		if asks.other {
			return s, fmt.Errorf("config.isolation.kubernetes.%s asks for what %s does not allow; an eval cannot decide where its pods run: allow it there, as docs/kubernetes.md says, or leave it out", asks.key, cmp.Or(from, "no kubeconfig"))
		}
	}
	own.Images, own.CPURequests, own.RemoveInterface = s.Images, s.CPURequests, s.RemoveInterface
	return own, nil
}

// isPartOf reports whether all has everything that part has.
func isPartOf(part, all map[string]string) bool {
	for key, value := range part {
		if has, ok := all[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// Toleration is a taint that pods bear.
type Toleration struct {
	Key      string `json:"key,omitempty" jsonschema:"key of the taint; default every taint"`
	Operator string `json:"operator,omitempty" enum:"Equal Exists" jsonschema:"Equal or Exists; default Equal"`
	Value    string `json:"value,omitempty" jsonschema:"value of the taint"`
	Effect   string `json:"effect,omitempty" enum:"NoSchedule PreferNoSchedule NoExecute" jsonschema:"effect of the taint; default every effect"`
}
