package guests

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
)

// Images says where the cluster has the images of an eval, each with waza's own files on top.
// `waza images save` and `waza images push` write it.
type Images struct {
	Waza      string `json:"waza"`       // version whose guest the images hold
	FirstUser int    `json:"first_user"` // first of the users that the images have accounts of
	// Images are the images by the reference that the eval has; the guest's own as "".
	Images map[string]Image `json:"images"`
}

// Image is an image as plans of containers need it.
type Image struct {
	Reference string            `json:"reference"`         // as pods name it; empty on an engine
	ID        string            `json:"id"`                // of the image without waza's files
	Digests   []string          `json:"digests,omitempty"` // of the repositories it is known under, as name@sha256:…
	User      string            `json:"user,omitempty"`    // that the image declares
	Users     map[string]string `json:"users,omitempty"`   // UID:GID of users that are given by name, by name
	Volumes   []string          `json:"volumes,omitempty"` // directories that the image declares; they would be unlimited disk
	Health    []string          `json:"health,omitempty"`  // command of its health check, as in a Dockerfile's HEALTHCHECK
	Program
}

// IsRoot reports whether a user, as an image or an eval names it, is root or nobody in particular.
func IsRoot(user string) bool {
	name, _, _ := strings.Cut(user, ":")
	return name == "" || name == "root" || name == "0"
}

// UserOf returns who runs in a container of the image, as "uid:gid", if the eval, which wants a
// user, or the image insists on one, and which of them does; else both are empty. Nobody can
// insist on root, and an image alone not on its group. A user whose name the image maps to root
// stays root, which checks refuse.
func (i Image) UserOf(wanted string) (user, insists string) {
	name, insists := wanted, "the eval"
	if wanted == "" {
		name, insists = i.User, "its image"
	}
	if IsRoot(name) {
		return "", ""
	}
	uid, gid, named := strings.Cut(cmp.Or(i.Users[name], name), ":")
	if !named || gid == "0" && wanted == "" {
		gid = uid
	}
	return uid + ":" + gid, insists
}

// HealthCheck returns the command of the image's health check; empty if it has none.
func (i Image) HealthCheck() []string {
	switch test := i.Health; {
	case len(test) > 1 && test[0] == "CMD":
		return test[1:]
	case len(test) > 1 && test[0] == "CMD-SHELL":
		return []string{"/bin/sh", "-c", strings.Join(test[1:], " ")}
	}
	return nil
}

// ReadImages reads what [Images] were written as.
func ReadImages(data []byte) (i Images, err error) {
	if err := json.Unmarshal(data, &i); err != nil {
		return i, err
	}
	for ref, image := range i.Images {
		if image.Reference == "" {
			return i, fmt.Errorf("the image %q has no reference", ref)
		}
	}
	if i.Images[""].Reference == "" {
		return i, fmt.Errorf("the guest's own image is missing")
	}
	return i, nil
}

// Missing returns the images of trials that are not in the list.
func (i Images) Missing(trials []*plan.Trial) (refs []string) {
	for _, t := range trials {
		for _, c := range t.AllContainers() {
			refs = append(refs, c.Image)
		}
	}
	slices.Sort(refs)
	return slices.DeleteFunc(slices.Compact(refs), func(ref string) bool {
		_, ok := i.Images[ref]
		return ok
	})
}

// Records returns the images for run.json.
func (i Images) Records() evidence.ImageRecords {
	records := evidence.ImageRecords{}
	for ref, image := range i.Images {
		if ref == "" {
			ref = "waza-guest"
		}
		records[ref] = evidence.ImageRecord{ID: image.ID, Digests: append(slices.Clone(image.Digests), image.Reference)}
	}
	return records
}
