package containers

import (
	"encoding/json"
	"fmt"

	"github.com/docker/go-units"
)

// layers is the progress of an image's layers during a pull or push, by id.
type layers map[string]layer

// layer is the progress of one layer.
type layer struct {
	current, total int64 // bytes; the total is 0 until it is known
	moved          bool  // all bytes are transferred
	done           bool
}

// maxLayers is how many layers are tracked. An image has at most 127.
const maxLayers = 512

// add adds a message of the engine, and reports whether it is about a layer.
func (l *layers) add(line progressLine) bool {
	one, known := (*l)[line.ID]
	switch line.Status {
	case "Pulling fs layer", "Waiting", "Preparing":
	case "Downloading", "Pushing":
		var bytes struct{ Current, Total int64 }
		if json.Unmarshal(line.ProgressDetail, &bytes) == nil && bytes.Total > 0 {
			one.total, one.current = bytes.Total, min(max(0, bytes.Current), bytes.Total)
		}
	case "Verifying Checksum", "Download complete", "Extracting":
		one.moved = true
	case "Pull complete", "Already exists", "Pushed", "Layer already exists":
		one.moved, one.done = true, true
	default:
		return false
	}
	if line.ID == "" || !known && len(*l) == maxLayers {
		return false
	}
	if *l == nil {
		*l = layers{}
	}
	(*l)[line.ID] = one
	return true
}

// String returns how many bytes were transferred, of those of all layers whose size is known.
func (l layers) String() string {
	var current, total float64
	sized, moved, done := 0, 0, 0
	for _, one := range l {
		if one.done {
			done++
		}
		if one.moved {
			moved++
			one.current = one.total
		}
		if one.moved || one.total > 0 {
			sized++
		}
		current, total = current+float64(one.current), total+float64(one.total)
	}
	switch {
	case len(l) == 0:
		return ""
	case moved == len(l):
		return fmt.Sprintf("%d of %d layers done", done, len(l))
	case total == 0:
		return fmt.Sprintf("%d of %d layers there", moved, len(l))
	}
	said := fmt.Sprintf("%d%% of %s", int(100*current/total), units.HumanSize(total))
	if sized < len(l) {
		said += fmt.Sprintf(" in %d of %d layers", sized, len(l))
	}
	return said
}

// stepsOf returns a function that takes the engine's messages and calls step with the progress of
// the layers.
func stepsOf(step func(string)) func(progressLine) {
	var all layers
	return func(line progressLine) {
		if all.add(line) {
			step(all.String())
		}
	}
}
