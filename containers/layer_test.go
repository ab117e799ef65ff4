package containers

import (
	"slices"
	"testing"
	"time"

	"github.com/moby/moby/api/types/image"
)

func TestStaleLayers(t *testing.T) {
	const own = layerRepository + ":0123-"
	made := func(id string, age int, parent string, tags ...string) image.Summary {
		i := image.Summary{ID: id, Created: int64(1000 - age), RepoTags: tags}
		if parent != "" {
			i.Labels = map[string]string{labelImage: imageLayer, labelParent: parent}
		}
		return i
	}
	all := []image.Summary{ // the engine tells seconds
		made("kept", 400, "base", own+"a"),
		made("base", 900, "", "debian:12"),
		made("by digest", 900, ""),
		made("of digest", 300, "by digest", own+"c"),
		made("of nobody", 300, "gone", own+"d"),
		made("somebody's", 300, "gone", "team/agent:latest"),
		made("unnamed", 100, "base"),
		made("unnamed, young", 5, "base"),
		made("other, young", 5, "base", layerRepository+":4567-a"),
		made("other, old", 50, "base", layerRepository+":4567-b"),
	}
	all[2].RepoDigests = []string{"debian@sha256:0"}
	got := staleLayers(all, own, time.Unix(990, 0))
	if want := []string{"of nobody", "unnamed", "other, old"}; !slices.Equal(got, want) {
		t.Errorf("stale are %q, want %q", got, want)
	}
}
