package guests

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Images lists where the cluster finds the images of an eval, each with waza's own files on
// top. It is written by `waza images save` and `waza images push`.
type Images struct {
	Waza      string `json:"waza"`       // version of the guest in the images
	FirstUser int    `json:"first_user"` // first of the user ids with accounts in the images
	// Images are the images by their reference in the eval; "" is the guest image.
	Images map[string]Image `json:"images"`
}

// Image is the data of an image that container plans need.
type Image struct {
	Reference string            `json:"reference"`         // the image with waza's files: NAME@sha256:HEX, or the id sha256:HEX on nodes
	ID        string            `json:"id"`                // id of the image without waza's files
	Digests   []string          `json:"digests,omitempty"` // repository digests, as name@sha256:…
	User      string            `json:"user,omitempty"`    // user that the image declares
	Users     map[string]string `json:"users,omitempty"`   // UID:GID of users that are given by name
	Volumes   []string          `json:"volumes,omitempty"` // directories that the image declares; as volumes they would be unlimited
	Health    []string          `json:"health,omitempty"`  // command of its health check, as in a Dockerfile
	Program
}

// IsRoot reports whether a user, as named by an image or an eval, is root or unspecified.
func IsRoot(user string) bool {
	name, _, _ := strings.Cut(user, ":")
	return name == "" || name == "root" || name == "0"
}

// UserOf returns the user that the eval or the image requires for a container, as "uid:gid",
// and which of them requires it. Both are empty if neither does. wanted is the eval's user.
// Root cannot be required, and an image cannot require its group to be root. A name that the
// image maps to root stays root, which later checks reject.
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

// CheckOf returns the check by which a service of the image is found ready: check or, if that has no Args,
// the image's health check. It runs in the image's directory unless it names another.
func (i Image) CheckOf(check process.Spec) (process.Spec, error) {
	if len(check.Args) == 0 {
		check.Args = i.healthCheck()
	}
	if len(check.Args) == 0 {
		return check, errors.New("its image has no HEALTHCHECK; give it ready.exec")
	}
	check.Dir = cmp.Or(check.Dir, i.Dir)
	return check, nil
}

// healthCheck returns the command of the image's health check, or nil.
func (i Image) healthCheck() []string {
	switch test := i.Health; {
	case len(test) > 1 && test[0] == "CMD":
		return test[1:]
	case len(test) > 1 && test[0] == "CMD-SHELL":
		return []string{"/bin/sh", "-c", strings.Join(test[1:], " ")}
	}
	return nil
}

// ReadImages parses [Images].
func ReadImages(data []byte) (i Images, err error) {
	if err := json.Unmarshal(data, &i); err != nil {
		return i, err
	}
	if _, is := i.Images[""]; !is {
		return i, fmt.Errorf("the guest's own image is missing")
	}
	for ref, image := range i.Images {
		if !digested.MatchString(image.Reference) {
			return i, fmt.Errorf("the image %q is %q, which has no digest: what a name stands for can change", ref, image.Reference)
		}
	}
	return i, nil
}

// digested matches the references of images whose content cannot change.
var digested = regexp.MustCompile(`^([^@\s]+@)?sha256:[0-9a-f]{64}$`)

// OnNodes reports whether a reference is that of an image which only nodes have.
func OnNodes(reference string) bool { return strings.HasPrefix(reference, "sha256:") }

// Missing returns the images of sandboxes that are not in the list.
func (i Images) Missing(all []*sandbox.Spec) (refs []string) {
	for _, s := range all {
		for _, c := range s.Containers {
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
