package kubernetes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/waza-isolate/waza/sandbox"
	guestpkg "github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/kube"
)

// Labels and annotations of all objects that we create, set in the request that creates them.
const (
	labelRun   = "waza.run"
	labelRole  = "waza.role"
	labelProbe = "waza.probe" // marks the pods of a certificate, which run on one node

	annotationTrial     = "waza.trial" // TASK/N or TASK/N/ATTEMPT
	annotationContainer = "waza.container"
	annotationMCP       = "waza.mcp-json" // the agent's mcp.json, which the node mounts as a file
)

const (
	containerName = "guest"
	mcpVolume     = "mcp"
	// endGrace is how many seconds process 1 may take to exit after its pod is deleted.
	endGrace = 2
)

// podPlan is one container of a trial as a pod.
type podPlan struct {
	container string
	pod       *corev1.Pod
	image     guests.Image
	writable  []string // directories of limited size
	insists   string   // who requires the user, the eval or its image; empty if neither
	user      string   // UID:GID
}

// planInput is what plans of pods depend on besides the sandbox.
type planInput struct {
	run     string
	owner   metav1.OwnerReference
	config  kube.Settings
	images  guests.Images
	user    func() string // returns a user that no other pod of the run has, or "" if all are in use
	newName func() string
	// ownUsers requests a user namespace for every pod.
	ownUsers bool
}

// planTrial decides which pods a sandbox has.
func planTrial(t *sandbox.Spec, in planInput) ([]podPlan, error) {
	var all []podPlan
	for _, c := range t.Containers {
		p, err := in.plan(t, c)
		all = append(all, p)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// plan plans a pod. All pods have the same walls: no capabilities, no new privileges, a read-only
// root, no token of the cluster, no name server except their own guest, and hard limits.
func (in planInput) plan(t *sandbox.Spec, c sandbox.ContainerSpec) (podPlan, error) {
	image, ok := in.images.Images[c.Image]
	if !ok {
		return podPlan{}, fmt.Errorf("the cluster has no image %q; run waza images push for this eval", c.Image)
	}
	p := podPlan{container: c.Name, image: image}
	if p.user, p.insists = image.UserOf(c.User); p.insists == "" {
		p.user = in.user()
	}
	p.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: in.newName(), OwnerReferences: []metav1.OwnerReference{in.owner},
			Labels: map[string]string{labelRun: in.run, labelRole: c.Role},
			Annotations: map[string]string{
				annotationTrial: t.Label(), annotationContainer: c.Name,
				"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
			},
		},
		Spec: in.spec(image.Reference, in.images.Images[""].Reference, c.Container),
	}
	if err := p.setUser(in.ownUsers); err != nil {
		return p, err
	}
	guest := &p.pod.Spec.Containers[0]
	guest.Resources = in.resources(c.Container)
	for i := range p.pod.Spec.InitContainers {
		p.pod.Spec.InitContainers[i].Resources = guest.Resources
	}
	if t.Probe {
		in.gather(p.pod)
	}
	p.writable = append(slices.Clone(c.Writable), sandbox.SharedMemory)
	if c.Disk > 0 {
		p.writable = append(p.writable, sandbox.ScratchDir, sandbox.HomeDir)
		p.writable = append(p.writable, image.Volumes...)
	}
	slices.Sort(p.writable)
	p.writable = slices.Compact(p.writable)
	own := makeDirectories(in.images.Images[""].Reference)
	for i, dir := range p.writable {
		name := "dir-" + strconv.Itoa(i)
		p.pod.Spec.Volumes = append(p.pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(c.SizeOf(dir), resource.BinarySI),
		}}})
		mount := corev1.VolumeMount{Name: name, MountPath: dir}
		if !slices.Contains([]string{sandbox.ScratchDir, sandbox.HomeDir, sandbox.WorkspaceDir, sandbox.SharedMemory}, dir) {
			at := "/" + name
			own.VolumeMounts = append(own.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at})
			own.Command, mount.SubPath = append(own.Command, at), guestpkg.OwnDirectory
		}
		guest.VolumeMounts = append(guest.VolumeMounts, mount)
	}
	if len(own.VolumeMounts) > 0 {
		own.Resources = guest.Resources
		p.pod.Spec.InitContainers = append(p.pod.Spec.InitContainers, own)
	}
	if c.MCPConfig != "" {
		p.pod.Annotations[annotationMCP] = c.MCPConfig
		p.pod.Spec.Volumes = append(p.pod.Spec.Volumes, corev1.Volume{Name: mcpVolume, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{Path: "mcp.json", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + annotationMCP + "']"}}},
		}}})
		guest.VolumeMounts = append(guest.VolumeMounts, corev1.VolumeMount{Name: mcpVolume, MountPath: sandbox.MCPConfigPath, SubPath: "mcp.json", ReadOnly: true})
	}
	p.pod.Spec.HostAliases = aliases(guests.Hosts(t, c.Name, guests.Airtight))
	return p, nil
}

const (
	// mappedUsers is the number of users in a pod's user namespace. firstMapped is the first of them
	// that waza uses.
	mappedUsers = 1 << 16
	firstMapped = 30_000
)

// setUser sets the pod's user. If ownUsers is set and the user exists in a user namespace, it also
// requests one.
func (p *podPlan) setUser(ownUsers bool) error {
	uid, gid, err := numbers(p.user)
	if err != nil {
		return err
	}
	p.pod.Spec.HostUsers = nil
	if ownUsers && p.insists == "" {
		uid, gid = firstMapped+uid%guests.MaxContainers, firstMapped+gid%guests.MaxContainers
	}
	if ownUsers && uid < mappedUsers && gid < mappedUsers {
		no := false
		p.pod.Spec.HostUsers = &no
	}
	p.pod.Spec.SecurityContext.RunAsUser, p.pod.Spec.SecurityContext.RunAsGroup = &uid, &gid
	return nil
}

// spec returns the common part of all pods. Containers with more rights than the guest only run our
// own image.
func (in planInput) spec(image, ours string, c sandbox.Container) corev1.PodSpec {
	no, yes, grace := false, true, int64(endGrace)
	runtime := (*string)(nil)
	if in.config.RuntimeClass != "" {
		runtime = &in.config.RuntimeClass
	}
	spec := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		AutomountServiceAccountToken:  &no,
		EnableServiceLinks:            &no,
		TerminationGracePeriodSeconds: &grace,
		Hostname:                      "waza",
		DNSPolicy:                     corev1.DNSNone,
		DNSConfig:                     &corev1.PodDNSConfig{Nameservers: []string{"127.0.0.1"}, Options: []corev1.PodDNSConfigOption{{Name: "use-vc"}}},
		RuntimeClassName:              runtime,
		NodeSelector:                  in.config.NodeSelector,
		Tolerations:                   tolerations(in.config.Tolerations),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}, // the guest listens on ports 53 and 80
		},
		Containers: []corev1.Container{{
			Name: containerName, Image: image, ImagePullPolicy: pullPolicy(image),
			Command: append(guests.Command(c), guestpkg.Sealed), WorkingDir: "/",
			Stdin: true, StdinOnce: true, SecurityContext: walls(),
		}},
	}
	if in.config.RemoveInterface {
		root, admin := int64(0), walls()
		admin.RunAsUser, admin.RunAsGroup, admin.RunAsNonRoot = &root, &root, &no
		admin.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
		spec.InitContainers = []corev1.Container{{
			Name: "remove-interface", Image: ours, ImagePullPolicy: pullPolicy(ours),
			Command: []string{sandbox.GuestPath, "guest", guestpkg.RemoveInterfaces}, WorkingDir: "/", SecurityContext: admin,
		}}
	}
	return spec
}

// makeDirectories returns an init container that creates directories of the pod's user in volumes.
// The volumes belong to root, and databases require a directory of their own user.
func makeDirectories(image string) corev1.Container {
	return corev1.Container{
		Name: "make-directories", Image: image, ImagePullPolicy: pullPolicy(image),
		Command: []string{sandbox.GuestPath, "guest", guestpkg.MakeDirectories}, WorkingDir: "/", SecurityContext: walls(),
	}
}

// pullPolicy returns when a node pulls an image: never if only nodes have the image.
func pullPolicy(image string) corev1.PullPolicy {
	if guests.OnNodes(image) {
		return corev1.PullNever
	}
	return corev1.PullIfNotPresent
}

// walls returns the security context of every container of a pod.
func walls() *corev1.SecurityContext {
	no, yes := false, true
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Privileged: &no,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// logSpace is the limit of the node's disk space for a container in bytes. It is used by the
// container's log, which holds the output of process 1 until the kubelet rotates it.
const logSpace = 4 << 30

// resources returns the limits of a container. All of its memory is reserved, so that a node never
// has to end a pod for lack of memory.
func (in planInput) resources(c sandbox.Container) corev1.ResourceRequirements {
	memory, disk := *resource.NewQuantity(c.Memory, resource.BinarySI), *resource.NewQuantity(logSpace, resource.BinarySI)
	share := cmp.Or(in.config.CPURequests, 1)
	return corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(max(1, int64(c.CPUs*1000)), resource.DecimalSI), corev1.ResourceMemory: memory, corev1.ResourceEphemeralStorage: disk},
		Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(max(1, int64(c.CPUs*1000*share)), resource.DecimalSI), corev1.ResourceMemory: memory, corev1.ResourceEphemeralStorage: resource.Quantity{}},
	}
}

// probeCPU is the CPU reserved for a pod of a certificate, in thousandths. Six of them run on one
// node for seconds.
const probeCPU = 50

// gather places a pod of a certificate on the node of the others.
func (in planInput) gather(pod *corev1.Pod) {
	pod.Labels[labelProbe] = in.run
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(probeCPU, resource.DecimalSI)
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelProbe: in.run}}, TopologyKey: corev1.LabelHostname,
	}}}}
}

// numbers parses "uid:gid".
func numbers(user string) (uid, gid int64, err error) {
	if user == "" {
		return 0, 0, fmt.Errorf("a run has at most %d pods at once; lower --workers", guests.MaxContainers)
	}
	first, second, _ := strings.Cut(user, ":")
	if uid, err = strconv.ParseInt(first, 10, 32); err == nil {
		gid, err = strconv.ParseInt(second, 10, 32)
	}
	if err == nil && uid == 0 {
		return 0, 0, fmt.Errorf("user %q is root; name another user", user)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("user %q is not given by number; name it in the eval as UID:GID, or push the eval's images again", user)
	}
	return uid, gid, nil
}

// aliases returns the entries of a pod's hosts file. Names that the API rejects are only resolved
// by the guest.
func aliases(hosts map[string]netip.Addr) (all []corev1.HostAlias) {
	byAddr := map[string][]string{}
	for name, at := range hosts {
		if len(validation.IsDNS1123Subdomain(name)) == 0 {
			byAddr[at.String()] = append(byAddr[at.String()], name)
		}
	}
	for at, names := range byAddr {
		slices.Sort(names)
		all = append(all, corev1.HostAlias{IP: at, Hostnames: names})
	}
	slices.SortFunc(all, func(a, b corev1.HostAlias) int { return cmp.Compare(a.IP, b.IP) })
	return all
}

// tolerations returns the tolerations of an eval. Unless they say otherwise, a pod tolerates an
// unreachable node for less than the usual five minutes.
func tolerations(from []kube.Toleration) (all []corev1.Toleration) {
	for _, t := range from {
		all = append(all, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	if slices.ContainsFunc(from, func(t kube.Toleration) bool { return t.Key == "" || t.Key == corev1.TaintNodeUnreachable }) {
		return all
	}
	seconds := int64(lostSeconds)
	return append(all, corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
}
