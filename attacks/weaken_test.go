package attacks

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/waza-isolate/waza/internal/digest"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// build is an executable that lacks some defences.
type build struct {
	name     string
	defences []Defence
}

// removable are the defences that an edit takes out.
func removable() []Defence {
	var all []Defence
	for _, a := range All() {
		d := a.Without
		if d.Kept == "" && !slices.ContainsFunc(all, func(known Defence) bool { return known.Name == d.Name }) {
			all = append(all, d)
		}
	}
	return all
}

func builds() []build {
	var all []build
	for _, d := range removable() {
		i := slices.IndexFunc(all, func(b build) bool { return b.name == d.Build })
		if i < 0 {
			i, all = len(all), append(all, build{name: d.Build})
		}
		all[i].defences = append(all[i].defences, d)
	}
	return all
}

// certificateEdit has a run start although its certificate says that the sandbox does
// not hold.
func certificateEdit() Edit {
	return Edit{
		File: "cmd/waza/certificate.go",
		Old:  "scout, ok := backend.(runner.Scout)\n\tif !ok {",
		New:  "scout, ok := backend.(runner.Scout)\n\tif ok || !ok {",
	}
}

// weaken builds waza without some defences. The image of its guest goes with the test.
func (s *stage) weaken(t *testing.T, b build) string {
	t.Helper()
	edits := []Edit{certificateEdit()}
	for _, d := range b.defences {
		edits = append(edits, d.Edits...)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, err := overlay(root, dir, edits)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "waza")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-overlay", file, "-o", path, "./cmd/waza")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build without defences: %v\n%s", err, out)
	}
	sum, err := digest.File(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if ref := "waza-guest:" + sum[:16]; dockertest.ImageID(t, ref) != "" {
			dockertest.DropImage(t, ref)
		}
	})
	return path
}
