package kubernetes

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// watch follows the pods of a run and the policies of its namespace.
type watch struct {
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu   sync.Mutex
	pods map[string]*followed // by name; guarded by mu
}

// followed is the state of one pod according to the API.
type followed struct {
	watch *watch
	name  string

	pod     *corev1.Pod   // last known state; nil at first; guarded by the watch's mu
	gone    bool          // it is deleted; guarded by the watch's mu
	changed chan struct{} // closed and replaced at each event; guarded by the watch's mu
}

// watchPatience bounds starting a watch, which is retried if the API rejects it.
const watchPatience = 15 * time.Second

// startWatch starts to watch the pods that match a selector, and returns once the watch is
// complete. It calls policies with all policies of the namespace at the start and whenever one of
// them changes.
func startWatch(ctx context.Context, client kubernetes.Interface, namespace, selector string, policies func([]networkingv1.NetworkPolicy)) (*watch, error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &watch{stop: stop, pods: map[string]*followed{}}
	complete := []cache.InformerSynced{w.inform(running, cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "pods", namespace, func(o *metav1.ListOptions) { o.LabelSelector = selector }),
		&corev1.Pod{}, func(_ cache.Store, object any, gone bool) {
			w.handlePod(object.(*corev1.Pod), gone)
		}),
		w.inform(running, cache.NewListWatchFromClient(client.NetworkingV1().RESTClient(), "networkpolicies", namespace, fields.Everything()),
			&networkingv1.NetworkPolicy{}, func(store cache.Store, _ any, _ bool) {
				var all []networkingv1.NetworkPolicy
				for _, object := range store.List() {
					all = append(all, *object.(*networkingv1.NetworkPolicy))
				}
				policies(all)
			}),
	}
	ctx, cancel := context.WithTimeoutCause(ctx, watchPatience, fmt.Errorf("the API does not let it begin within %s", watchPatience))
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), complete...) {
		w.close()
		return nil, context.Cause(ctx)
	}
	return w, nil
}

// inform calls take with each event of objects of a kind until ctx ends. The returned function
// reports whether all initial objects have been seen.
func (w *watch) inform(ctx context.Context, from cache.ListerWatcher, kind runtime.Object, take func(store cache.Store, object any, gone bool)) cache.InformerSynced {
	var store cache.Store
	word := func(object any, gone bool) {
		if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		take(store, object, gone)
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: from, ObjectType: kind, Handler: cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { word(o, false) }, UpdateFunc: func(_, o any) { word(o, false) }, DeleteFunc: func(o any) { word(o, true) },
	}})
	w.ended.Go(func() { informer.RunWithContext(ctx) })
	return informer.HasSynced
}

func (w *watch) close() {
	w.stop()
	w.ended.Wait()
}

// handlePod processes an event about a pod.
func (w *watch) handlePod(pod *corev1.Pod, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.pods[pod.Name]
	if f == nil {
		return
	}
	f.pod, f.gone = pod, gone
	close(f.changed)
	f.changed = make(chan struct{})
}

// follow starts to follow a pod, before it is created.
func (w *watch) follow(name string) *followed {
	f := &followed{watch: w, name: name, changed: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[name] = f
	return f
}

// leave stops following the pod.
func (f *followed) leave() {
	f.watch.mu.Lock()
	defer f.watch.mu.Unlock()
	delete(f.watch.pods, f.name)
}

// last returns the last known state, and a channel that is closed at the next change.
func (f *followed) last() (pod *corev1.Pod, gone bool, changed <-chan struct{}) {
	f.watch.mu.Lock()
	defer f.watch.mu.Unlock()
	return f.pod, f.gone, f.changed
}

// await returns the first state for which until is true, or the last one when ctx ends.
func (f *followed) await(ctx context.Context, until func(pod *corev1.Pod, gone bool) bool) (pod *corev1.Pod, gone bool, err error) {
	for {
		pod, gone, changed := f.last()
		if (pod != nil || gone) && until(pod, gone) {
			return pod, gone, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return pod, gone, ctx.Err()
		}
	}
}
