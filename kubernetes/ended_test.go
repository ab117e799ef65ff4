package kubernetes

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waza-isolate/waza/sandbox"
)

// Who ended a pod, by the API's last word on it.
func TestJudge(t *testing.T) {
	now := metav1.Now()
	ended := func(code int32, reason string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}},
		}}}}
	}
	disrupted := func(reason string) *corev1.Pod {
		pod := ended(137, "Error")
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: "m"}}
		return pod
	}
	evicted := func(message string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: message}}
	}
	deleted := ended(0, "Completed")
	deleted.DeletionTimestamp = &now
	eof, broke := errors.New("EOF"), errors.New("close 1006")
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		gone  bool
		broke error
		want  sandbox.Cause
		says  string
	}{
		"out of memory":         {ended(137, oomKilled), false, nil, sandbox.ByItself, "out of memory"},
		"the same, cut off":     {ended(137, oomKilled), false, broke, sandbox.ByItself, "out of memory"},
		"killed from inside":    {ended(137, "Error"), false, broke, sandbox.ByItself, "went away"},
		"ended":                 {ended(0, "Completed"), false, nil, sandbox.ByItself, "went away"},
		"the connection broke":  {ended(0, "Completed"), false, broke, sandbox.ByEngine, "close 1006"},
		"deleted":               {deleted, false, nil, sandbox.FromOutside, "deleted"},
		"deleted and gone":      {nil, true, nil, sandbox.FromOutside, "deleted"},
		"preempted":             {disrupted("PreemptionByScheduler"), false, nil, sandbox.FromOutside, "preempted"},
		"evicted by the API":    {disrupted("EvictionByEvictionAPI"), true, nil, sandbox.FromOutside, "evicted"},
		"node gone":             {disrupted("DeletionByPodGC"), true, broke, sandbox.ByEngine, "node is gone"},
		"a reason of tomorrow":  {disrupted("New"), false, nil, sandbox.FromOutside, "New"},
		"evicted by the node":   {evicted("The node was low on resource: memory."), false, nil, sandbox.FromOutside, "low on resource"},
		"evicted for its files": {evicted(`Usage of EmptyDir volume "dir-0" exceeds the limit "16Mi".`), false, nil, sandbox.ByItself, "EmptyDir"},
	} {
		exit := judge(test.pod, test.gone, eof, test.broke)
		if exit.Cause != test.want || !strings.Contains(exit.Message, test.says) {
			t.Errorf("%s: %+v, want %s and %q", name, exit, test.want, test.says)
		}
	}
}

func TestStartFailure(t *testing.T) {
	waits := func(reason string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}}}}}
	}
	if err := startFailure(waits("ImagePullBackOff")); err == nil || !strings.Contains(err.Error(), "why") {
		t.Error(err)
	}
	if err := startFailure(waits("ContainerCreating")); err != nil {
		t.Error(err)
	}
}

// While the scheduler finds no node for a pod, no other is created, and that is said once.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		q := newQueue(func(what string) { said = append(said, what) })
		if err := q.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		q.halt("a", "0/2 nodes are available")
		q.halt("b", "0/2 nodes are available")
		entered := make(chan error, 1)
		go func() { entered <- q.enter(t.Context()) }()
		q.resume("a")
		time.Sleep(time.Minute)
		select {
		case <-entered:
			t.Error("a pod is created while another is stuck")
		default:
		}
		q.resume("b")
		if err := <-entered; err != nil {
			t.Error(err)
		}
		if len(said) != 1 || !strings.Contains(said[0], "0/2 nodes") {
			t.Errorf("said %q", said)
		}
		for range mostPending - 2 {
			if err := q.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		go func() { entered <- q.enter(t.Context()) }()
		synctest.Wait()
		select {
		case <-entered:
			t.Errorf("more than %d pods wait", mostPending)
		default:
		}
		q.leave()
		if err := <-entered; err != nil {
			t.Error(err)
		}
	})
}
