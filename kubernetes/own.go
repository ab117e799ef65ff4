package kubernetes

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/sandbox/kube"
)

// extension is the name of the extension of a context in KUBECONFIG that contains the user's
// settings of pods, with the keys of config.isolation.kubernetes.
const extension = "waza"

// Own returns the user's settings of pods from KUBECONFIG for a context that an eval or a command
// line names; empty for the current one. from describes where they are.
func Own(context string) (own kube.Settings, from string, err error) {
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		return own, "", fmt.Errorf("%w: %w", ErrNotConfigured, err)
	}
	name := cmp.Or(context, config.CurrentContext)
	from = fmt.Sprintf("the extension %s of the context %q of your kubeconfig", extension, name)
	found := config.Contexts[name]
	if found == nil {
		own.Context = context // connect reports an invalid context
		return own, from, nil
	}
	written, is := found.Extensions[extension].(*runtime.Unknown)
	if is {
		if own, err = readExtension(from, written.Raw); err != nil {
			return own, from, err
		}
	}
	if is || name == config.CurrentContext {
		own.Context = context
	}
	return own, from, nil
}

// readExtension parses the user's settings.
func readExtension(from string, written []byte) (own kube.Settings, err error) {
	doc, err := strictyaml.Parse(from, written)
	if err != nil {
		return own, err
	}
	doc.Decode(&own)
	for _, key := range []string{"context", "images", "cpu_requests", "remove_interface"} {
		if doc.Has(key) {
			doc.KeyProblemf(strictyaml.Path{key}, "%s is for evals: it has no place in %s", key, from)
		}
	}
	return own, doc.Err()
}
