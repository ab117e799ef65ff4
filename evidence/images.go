package evidence

import (
	"bytes"
	"encoding/json"
)

// ImageRecords is the images of a run, by reference.
type ImageRecords map[string]ImageRecord

// ImageRecord is what an image of a run was.
type ImageRecord struct {
	ID string `json:"id"` // on the engine: the digest of its configuration
	// Digests are the image's in the repositories it was pulled from, as
	// name@sha256:…; none for one that was built here.
	Digests []string `json:"digests,omitempty"`
}

// UnmarshalJSON also reads the bare id that runs were recorded with before.
func (r *ImageRecord) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte{'"'}) {
		return json.Unmarshal(data, &r.ID)
	}
	type plain ImageRecord
	return json.Unmarshal(data, (*plain)(r))
}
