// Package kube defines the settings of pods, in which a cluster runs the containers of sandboxes.
package kube

import (
	"cmp"
	"fmt"
	"slices"
)

// Settings defines where and how pods run. They come from config.isolation.kubernetes of an eval
// and from the user's own configuration.
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

// Settle returns the settings of a run's pods: those of own, the user's configuration, with an
// eval's images, CPU requests and removal of interfaces. Since an eval may come from a stranger, it
// must not choose the nodes, the namespace or the runtime of its pods: Settle returns an error if
// it asks for any that own does not have. from is where own is defined, for messages.
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

// isPartOf reports whether all contains every entry of part.
func isPartOf(part, all map[string]string) bool {
	for key, value := range part {
		if has, ok := all[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// Toleration is a taint that pods tolerate.
type Toleration struct {
	Key      string `json:"key,omitempty" jsonschema:"key of the taint; default every taint"`
	Operator string `json:"operator,omitempty" enum:"Equal Exists" jsonschema:"Equal or Exists; default Equal"`
	Value    string `json:"value,omitempty" jsonschema:"value of the taint"`
	Effect   string `json:"effect,omitempty" enum:"NoSchedule PreferNoSchedule NoExecute" jsonschema:"effect of the taint; default every effect"`
}
