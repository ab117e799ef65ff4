package guests

import (
	"encoding/json"
	"fmt"
	"slices"

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

// Image is an image in the cluster.
type Image struct {
	Reference string            `json:"reference"` // as pods name it
	ID        string            `json:"id"`        // of the image without waza's files
	Digests   []string          `json:"digests,omitempty"`
	User      string            `json:"user,omitempty"`    // UID:GID that the image insists on
	Users     map[string]string `json:"users,omitempty"`   // UID:GID of the users that the eval names, by name
	Volumes   []string          `json:"volumes,omitempty"` // directories that the image declares
	Health    []string          `json:"health,omitempty"`  // command of its health check
	Program
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
		for _, c := range t.Containers() {
			refs = append(refs, c.Image)
		}
		for _, g := range t.GraderContainers {
			refs = append(refs, g.Image)
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
