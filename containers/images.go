package containers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/offline"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// ErrImage means that an image cannot be used.
var ErrImage = errors.New("unusable image")

// imageInfo is what planning needs to know about an image.
type imageInfo struct {
	guests.Image
	layer string // id of the image with our files on top, which containers run
	ours  bool   // waza built it from packages; it runs as any user
}

// dropsRoot returns the program in an image's entrypoint that starts as root and drops
// privileges, if it is a known one.
func (i imageInfo) dropsRoot() string {
	for _, word := range slices.Concat(i.Entrypoint, i.Cmd) {
		switch base := word[strings.LastIndexByte(word, '/')+1:]; base {
		case "gosu", "su-exec", "setpriv", "runuser", "su", "init", "s6-svscan", "s6-overlay-suexec":
			if base != "init" || word == "/init" {
				return word
			}
		}
	}
	return ""
}

// imageStore manages the images of a run's containers, each with our files on top.
type imageStore struct {
	engine  *engine
	run     string
	program executable // what becomes process 1
	guest   imageInfo  // image that only contains it

	mu      sync.Mutex
	known   map[string]imageInfo // by reference; guarded by mu
	userIDs map[userKey]string   // ids of users that are given by name; guarded by mu
}

func newImageStore(e *engine, run string) *imageStore {
	return &imageStore{engine: e, run: run, known: map[string]imageInfo{}, userIDs: map[userKey]string{}}
}

// get returns an image. On first use it is pulled according to policy.
func (s *imageStore) get(ctx context.Context, ref, policy string, say func(string)) (imageInfo, error) {
	if ref == "" {
		return s.guest, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if info, ok := s.known[ref]; ok {
		return info, nil
	}
	info, err := s.engine.ensureImage(ctx, ref, policy, say)
	if err != nil {
		return info, err
	}
	if err = s.addLayer(ctx, ref, &info); err != nil {
		return info, err
	}
	s.known[ref] = info
	return info, nil
}

// of returns the images of containers by reference. "" is the guest image.
func (s *imageStore) of(ctx context.Context, containers []sandbox.ContainerSpec, say func(string)) (map[string]imageInfo, error) {
	found := map[string]imageInfo{"": s.guest}
	for _, c := range containers {
		found[c.Image] = s.guest
	}
	for _, ref := range sortedKeys(found) {
		info, err := s.get(ctx, ref, pullPolicy(ref, containers), say)
		if err != nil {
			return nil, err
		}
		found[ref] = info
	}
	return found, nil
}

// forget clears the cache, after an image was removed.
func (s *imageStore) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

// records returns the ids and digests of the images that were used, by reference. The id of the
// guest image is the digest of its executable, since the engine's id changes if the image is
// removed and built again.
func (s *imageStore) records() evidence.ImageRecords {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := evidence.ImageRecords{guestRepository: {ID: "sha256:" + s.program.sum}}
	for ref, info := range s.known {
		records[ref] = evidence.ImageRecord{ID: info.ID, Digests: info.Digests}
	}
	return records
}

// pullPolicy returns when an image is pulled: always if any container says so, never if all do, and
// otherwise if it is missing. Images that waza builds are never pulled.
func pullPolicy(ref string, containers []sandbox.ContainerSpec) string {
	wanted := map[string]bool{}
	for _, c := range containers {
		switch {
		case c.Image != ref:
		case c.Build != nil:
			return mcpconfig.PullNever
		default:
			wanted[cmp.Or(c.Pull, mcpconfig.PullMissing)] = true
		}
	}
	for _, policy := range []string{mcpconfig.PullAlways, mcpconfig.PullMissing} {
		if wanted[policy] {
			return policy
		}
	}
	return mcpconfig.PullNever
}

// inspectImage returns what planning needs to know about an image. If the engine does not have
// it, the error is errdefs.IsNotFound.
func (e *engine) inspectImage(ctx context.Context, ref string) (imageInfo, error) {
	found, err := e.ImageInspect(ctx, ref)
	if err != nil {
		return imageInfo{}, err
	}
	info := imageInfo{Image: guests.Image{ID: found.ID, Digests: slices.Sorted(slices.Values(found.RepoDigests))}}
	if found.Config == nil {
		return info, nil
	}
	info.User = found.Config.User
	info.ours = found.Config.Labels[labelImage] != "" && found.Config.Labels[labelImage] != imageSource
	info.Entrypoint, info.Cmd = found.Config.Entrypoint, found.Config.Cmd
	if info.Dir = found.Config.WorkingDir; info.Dir != "" {
		info.Dir = path.Clean("/" + info.Dir)
	}
	for dir := range found.Config.Volumes {
		if dir = path.Clean("/" + dir); mcpconfig.ReservedDir(dir) || strings.ContainsAny(dir, ":\x00") {
			return imageInfo{}, fmt.Errorf("%w: %q declares a volume at %s, where an empty directory would hide what a container needs; build it without that VOLUME", ErrImage, ref, dir)
		}
		info.Volumes = append(info.Volumes, dir)
	}
	slices.Sort(info.Volumes)
	if check := found.Config.Healthcheck; check != nil {
		info.Health = check.Test
	}
	return info, nil
}

// ensureImage returns an image, and pulls it according to policy, one of
// mcpconfig.PullPolicies. An empty policy means mcpconfig.PullMissing.
func (e *engine) ensureImage(ctx context.Context, ref, policy string, say func(string)) (imageInfo, error) {
	if policy != mcpconfig.PullAlways {
		info, err := e.inspectImage(ctx, ref)
		switch {
		case !errdefs.IsNotFound(err):
			return info, err
		case policy == mcpconfig.PullNever:
			return imageInfo{}, fmt.Errorf("image %q is not on the engine and its pull policy is never; pull or build it yourself, or set the policy to missing", ref)
		}
	}
	why, instead := "is not on the engine", "build it, or correct its name"
	if policy == mcpconfig.PullAlways {
		why, instead = "has the pull policy always", "correct its name, or set the policy to missing to use what the engine has"
	}
	say("pulling image " + ref)
	if err := e.pull(ctx, ref, instead); err != nil {
		return imageInfo{}, fmt.Errorf("image %q %s and cannot be pulled; %w", ref, why, err)
	}
	return e.inspectImage(ctx, ref)
}

// pull pulls an image with the user's Docker login for its registry. If the login cannot be read,
// it tries without, since the image may be public. Errors start with advice: instead, unless the
// login is the problem.
func (e *engine) pull(ctx context.Context, ref, instead string) error {
	if err := offline.Check(ctx, "image "+ref); err != nil {
		return err
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return err
	}
	host := reference.Domain(named)
	auth, authErr := loginFor(ctx, host)
	header := ""
	if auth != (registry.AuthConfig{}) {
		if header, err = authconfig.Encode(auth); err != nil {
			return err
		}
	}
	step, end := e.work("pulling image " + ref)
	defer end()
	progress, err := e.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: header})
	if err == nil {
		err = readProgress(progress, stepsOf(step))
	}
	if err != nil {
		return explainPull(err, authErr, header != "", host, instead)
	}
	return nil
}

// explainPull adds advice to err.
func explainPull(err, authErr error, loggedIn bool, host, instead string) error {
	switch {
	case authErr != nil:
		return fmt.Errorf("%w: %w", authErr, err)
	case unreached.MatchString(err.Error()):
		return fmt.Errorf("the engine does not reach %s: see its network and proxy, or %s: %w", host, instead, err)
	case !wantsLogin(err):
		return fmt.Errorf("%s: %w", instead, err)
	case loggedIn:
		return fmt.Errorf("its registry refuses the login that the Docker configuration has; log in again, as by docker login %s: %w", host, err)
	case strings.Contains(err.Error(), "denied"): // many registries say this about images that do not exist
		return fmt.Errorf("%s; if it is private, its registry needs a login, as by docker login %s: %w", instead, host, err)
	}
	return fmt.Errorf("its registry needs a login, as by docker login %s: %w", host, err)
}

// progressLine is a message of the engine during a pull, push or build.
type progressLine struct {
	Stream         string
	Aux            struct{ ID string }
	Error          string
	ID             string // of a layer
	Status         string // of the layer
	ProgressDetail json.RawMessage
}

// progressError is an error that the engine reports during a pull, push or build.
type progressError string

func (e progressError) Error() string { return string(e) }

// readProgress reads the engine's messages to the end and closes progress. It returns the first
// error among them.
func readProgress(progress io.ReadCloser, take func(progressLine)) error {
	defer func() { _ = progress.Close() }()
	for lines := json.NewDecoder(progress); ; {
		var line progressLine
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Error != "":
			return said{progressError(line.Error)}
		}
		take(line)
	}
}

// unreached matches errors of engines that cannot reach a registry.
var unreached = regexp.MustCompile(`dial tcp|no such host|i/o timeout|[Cc]onnection (?:refused|reset)|[Nn]etwork is unreachable|TLS handshake timeout|Client\.Timeout exceeded|request canceled while waiting`)

// wantsLogin reports whether a pull failed because a login is required. Some engines report
// that only in the message.
func wantsLogin(err error) bool {
	if errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err) {
		return true
	}
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc([]string{"unauthorized", "no basic auth credentials", "authentication required", "denied"}, func(word string) bool {
		return strings.Contains(text, word)
	})
}

// untagged lists the images with a label that have no tag and no children. Layers are excluded,
// as another run may use one that lost its tag.
func (e *engine) untagged(ctx context.Context, label string) ([]image.Summary, error) {
	all, err := e.ImageList(ctx, client.ImageListOptions{
		Filters: client.Filters{}.Add("label", label).Add("dangling", "true"),
	})
	return slices.DeleteFunc(all.Items, func(i image.Summary) bool { return i.Labels[labelImage] == imageLayer }), err
}

// dropImage removes an untagged image, and its untagged parents.
func (e *engine) dropImage(ctx context.Context, id string) error {
	_, err := e.ImageRemove(ctx, id, client.ImageRemoveOptions{PruneChildren: true})
	if err == nil {
		return nil
	}
	if _, gone := e.ImageInspect(ctx, id); errdefs.IsNotFound(gone) {
		return nil // Engine 20.10 returns other errors if it is removed concurrently
	}
	return err
}
