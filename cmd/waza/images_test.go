package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// What no current version asks for goes, but not under a run that is alive: that may be
// one of the version which asks for it.
func TestImages_PruneBesideARun(t *testing.T) {
	t.Parallel()
	p, engine, c := privateProject(t)
	old := []string{images.AgentRepository + ":old", images.Repository + ":old"}
	labelled(t, engine.Client(), old[0], "agent")
	labelled(t, engine.Client(), old[1], "server")
	const another = images.AgentRepository + ":somebodys"
	if err := engine.Client().ImageTag(t.Context(), inventory, another); err != nil {
		t.Fatal(err)
	}
	if said := p.start("images", "prune").wait(exitInfra).stderr.String(); !strings.Contains(said, "1 run(s) are alive") {
		t.Error(said)
	}
	listed := p.start("images", "list").wait(exitOK).stdout.String()
	for _, tag := range old {
		if !strings.Contains(listed, tag) {
			t.Errorf("%s is gone while a run is alive: %s", tag, listed)
		}
	}
	if count := strings.Count(listed, "not built"); count != len(adapter.Names()) {
		t.Errorf("%d agents are not built: %s", count, listed)
	}
	c.wait(exitOK)
	if said := p.start("images", "prune").wait(exitOK).stdout.String(); strings.Count(said, "removed ") != len(old) {
		t.Error(said)
	}
	if said := p.start("images", "prune").wait(exitOK).stdout.String(); said != "nothing to remove\n" {
		t.Error(said)
	}
	for _, ref := range []string{inventory, another} {
		if _, err := engine.Client().ImageInspect(t.Context(), ref); err != nil {
			t.Errorf("an image that is not waza's: %v", err)
		}
	}
	dockertest.NoObjects(t, engine.Client(), p.runID())
}

// labelled makes an empty image with waza's label of a kind.
func labelled(t *testing.T, engine *client.Client, ref, kind string) {
	t.Helper()
	empty := strings.NewReader(strings.Repeat("\x00", 1024)) // a tar without entries
	progress, err := engine.ImageImport(t.Context(), image.ImportSource{Source: empty, SourceName: "-"}, ref, image.ImportOptions{Changes: []string{"LABEL waza.image=" + kind}})
	if err == nil {
		_, err = io.Copy(io.Discard, progress)
		err = errors.Join(err, progress.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestImages_OfNobody(t *testing.T) {
	t.Parallel()
	p := unpackProject(t, "")
	for args, want := range map[string]string{
		"images build claud": `no agent "claud" comes with waza; did you mean "claude"?`,
		"images prun":        `no command images "prun"; did you mean "prune"?`,
		"images list all":    "images list takes no arguments",
		"images list --bas":  "flag provided but not defined: -bas",

		"images build nope --base debian:bookworm-slim": `no agent "nope" comes with waza`,
	} {
		if said := p.start(strings.Fields(args)...).wait(exitUsage).stderr.String(); !strings.Contains(said, want) {
			t.Errorf("%s: %s", args, said)
		}
	}
	if said := p.start("images", "build", "--help").wait(exitOK).stdout.String(); !strings.Contains(said, "--base") {
		t.Errorf("help: %s", said)
	}
}
