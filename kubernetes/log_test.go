package kubernetes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/kube"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// A server that prints its secret does not get it into its node's log, nor does anything of the cluster
// have it. Where process 1 does not encrypt what it writes, the log has it.
func TestNoSecretInCluster(t *testing.T) {
	b := open(t, suiteProgram(t), Options{Config: kube.Settings{Namespace: "waza-log", CPURequests: 0.02}, AllowWeak: []string{probe.HostTCP}})
	for name, sealed := range map[string]bool{"sealed": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			p, err := b.planInput().plan(trialOf(b), sandbox.ContainerSpec{Name: "one", Role: sandbox.RoleServer, Container: small()})
			if err != nil {
				t.Fatal(err)
			}
			if command := &p.pod.Spec.Containers[0].Command; !sealed {
				*command = slices.DeleteFunc(*command, func(word string) bool { return word == guest.Sealed })
			}
			c, err := b.start(t.Context(), p, &share{alone: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			secret := "s3cret-" + strings.Repeat(b.run, 4)
			printed := strings.Repeat(secret+"\n", 1000)
			if said := tell(t, c, printed); said != printed {
				t.Fatalf("the server says %d bytes, not %d", len(said), len(printed))
			}
			log := ""
			dockertest.Await(t, dockertest.Dying, "the node's log has what the server printed", func() bool {
				log = logOf(t, c)
				return len(log) > len(printed)/2
			})
			if got := strings.Contains(log, secret); got == sealed {
				t.Errorf("the node's log has the secret: %t", got)
			}
			pods, err := b.client.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{})
			events, errEvents := b.client.CoreV1().Events(b.namespace).List(t.Context(), metav1.ListOptions{})
			leases, errLeases := b.client.CoordinationV1().Leases(b.namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil || errEvents != nil || errLeases != nil || len(pods.Items) == 0 || len(events.Items) == 0 || len(leases.Items) == 0 {
				t.Fatalf("pods %v, events %v, leases %v", err, errEvents, errLeases)
			}
			if text, _ := json.Marshal([]any{pods, events, leases}); strings.Contains(string(text), secret) || strings.Contains(string(text), base64.StdEncoding.EncodeToString([]byte(secret))) {
				t.Error("an object of the cluster has the secret")
			}
		})
	}
}

// tell has a program print a variable of its own.
func tell(t *testing.T, c *startedPod, secret string) string {
	t.Helper()
	p, err := c.Start(t.Context(), process.Spec{Args: []string{sandbox.GuestPath, "env", "TOKEN"}, Env: []string{"TOKEN=" + secret}})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if _, err := process.Communicate(p, nil, &out, io.Discard).Wait(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// logOf returns the node's log of a pod's process 1.
func logOf(t *testing.T, c *startedPod) string {
	t.Helper()
	text, err := c.backend.client.CoreV1().Pods(c.backend.namespace).GetLogs(c.followed.name, &corev1.PodLogOptions{Container: containerName}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
