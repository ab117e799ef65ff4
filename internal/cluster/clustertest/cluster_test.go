// Package clustertest tests that the cluster behaves as others do whose network policies
// are enforced.
package clustertest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
)

// image is on every node.
const image = "waza.local/pause:1"

func TestCluster(t *testing.T) {
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		t.Skip("KUBECONFIG is not set; scripts/cluster test sets it")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	check(t, err)
	client, err := kubernetes.NewForConfig(config)
	check(t, err)
	ns, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "clustertest-"}}, metav1.CreateOptions{})
	check(t, err)
	t.Cleanup(func() {
		check(t, client.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{}))
	})
	c := &cluster{t, config, client, ns.Name}

	c.start("client", "node1")
	c.start("cat", "node1", "cat")
	c.start("near", "node1", "listen", ":8080")
	c.start("far", "node2", "listen", ":8080")
	client1, near, far := c.await("client"), c.await("near"), c.await("far")
	node := client1.Status.HostIP + ":10250"

	t.Run("exec and attach", func(t *testing.T) {
		if out, err := c.exec("client", "hello", "/pause", "cat"); err != nil || out != "hello" {
			t.Errorf("exec: %q, %v", out, err)
		}
		c.await("cat")
		if out, err := c.attach("cat", "hello"); err != nil || out != "hello" {
			t.Errorf("attach: %q, %v", out, err)
		}
	})
	t.Run("no DNS", func(t *testing.T) {
		if out, err := c.exec("client", "", "/pause", "lookup", "kubernetes.default.svc.cluster.local"); err == nil {
			t.Errorf("a name has addresses: %s", out)
		}
	})

	others := []string{near.Status.PodIP + ":8080", far.Status.PodIP + ":8080", far.Status.HostIP + ":10250",
		"10.248.0.1:443", strings.TrimPrefix(config.Host, "https://")}
	await(t, time.Minute, "everything is reached without a policy", func() error {
		for _, address := range append(others, node) {
			if _, err := c.exec("client", "", "/pause", "dial", address); err != nil {
				return fmt.Errorf("%s: %w", address, err)
			}
		}
		return nil
	})
	for _, direction := range []networkingv1.PolicyType{networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress} {
		t.Run("policy of "+string(direction), func(t *testing.T) {
			selected, denied := "client", others
			if direction == networkingv1.PolicyTypeIngress {
				selected, denied = "far", others[1:2]
			}
			policies := client.NetworkingV1().NetworkPolicies(ns.Name)
			_, err := policies.Create(t.Context(), &networkingv1.NetworkPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: "deny"},
				Spec: networkingv1.NetworkPolicySpec{
					PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"name": selected}},
					PolicyTypes: []networkingv1.PolicyType{direction},
				},
			}, metav1.CreateOptions{})
			check(t, err)
			time.Sleep(200 * time.Millisecond) // how soon it has to hold
			for _, address := range denied {
				if _, err := c.exec("client", "", "/pause", "dial", address); err == nil {
					t.Errorf("%s is reached in spite of the policy", address)
				}
			}
			if _, err := c.exec("client", "", "/pause", "dial", node); err != nil {
				t.Errorf("a pod's own node is not reached: %v", err)
			}
			check(t, policies.Delete(t.Context(), "deny", metav1.DeleteOptions{}))
			await(t, 10*time.Second, "the other pod is reached again", func() error {
				_, err := c.exec("client", "", "/pause", "dial", others[1])
				return err
			})
		})
	}
}

type cluster struct {
	t         *testing.T
	config    *rest.Config
	client    *kubernetes.Clientset
	namespace string
}

// start starts a pod that may do as little as one can.
func (c *cluster) start(name, node string, args ...string) {
	no, yes, user := false, true, int64(65535)
	limits := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
	}
	size := resource.MustParse("1Mi")
	_, err := c.client.CoreV1().Pods(c.namespace).Create(c.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{
				Name: "main", Image: image, ImagePullPolicy: corev1.PullNever, Args: args,
				Stdin: true, StdinOnce: true,
				Resources:    corev1.ResourceRequirements{Limits: limits, Requests: limits},
				VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
				SecurityContext: &corev1.SecurityContext{
					RunAsNonRoot: &yes, RunAsUser: &user, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
					Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
			}},
			Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size},
			}}},
		},
	}, metav1.CreateOptions{})
	check(c.t, err)
}

// await returns the pod once it runs.
func (c *cluster) await(name string) (pod *corev1.Pod) {
	await(c.t, time.Minute, "pod "+name+" runs", func() (err error) {
		pod, err = c.client.CoreV1().Pods(c.namespace).Get(c.t.Context(), name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return err
	})
	return pod
}

func (c *cluster) exec(pod, stdin string, command ...string) (string, error) {
	return c.stream(pod, "exec", stdin, &corev1.PodExecOptions{Command: command, Stdin: true, Stdout: true, Stderr: true})
}

func (c *cluster) attach(pod, stdin string) (string, error) {
	return c.stream(pod, "attach", stdin, &corev1.PodAttachOptions{Stdin: true, Stdout: true, Stderr: true})
}

func (c *cluster) stream(pod, how, stdin string, options runtime.Object) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	url := c.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.namespace).Name(pod).SubResource(how).
		VersionedParams(options, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, url)
	if err != nil {
		return "", err
	}
	var out, complaint bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &complaint})
	if err != nil {
		err = fmt.Errorf("%w: %s", err, complaint.String())
	}
	return out.String(), err
}

func await(t *testing.T, limit time.Duration, what string, try func() error) {
	t.Helper()
	end := time.Now().Add(limit)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s: %v", limit, what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
