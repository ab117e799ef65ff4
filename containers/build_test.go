package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/pypitest"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

const proxySecret = "proxy-password-0815"

// buildLimit is more than building one small image takes.
const buildLimit = 10 * time.Minute

// openBuilder opens a run whose builds reach an index, which has a package with
// the run's name.
func openBuilder(t *testing.T) (*Backend, *pypitest.Index) {
	t.Helper()
	dockertest.Image(t, images.DefaultPyPI)
	b := openRun(t)
	host := dockertest.Gateway(t)
	index := pypitest.Serve(t, host, pypitest.Server(b.run, "mark of "+b.run)...)
	b.network = images.Network{
		CA: index.CA, Env: map[string]string{"PIP_INDEX_URL": index.URL},
		Proxy: map[string]string{"HTTPS_PROXY": "http://x:" + proxySecret + "@proxy.invalid:9", "NO_PROXY": host},
	}
	b.redact = func(s string) string { return strings.ReplaceAll(s, pypitest.Password, "[REDACTED]") }
	t.Cleanup(func() { noStages(t, b) })
	return b, index
}

// noStages holds that nothing of a run's builds is left but the images it wanted.
func noStages(t *testing.T, b *Backend) {
	t.Helper()
	left, err := b.engine.ImageList(context.Background(), client.ImageListOptions{All: true, Filters: filter{labelRun + "=" + b.run}.args()})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("builds of the run left %d images, %v", len(left.Items), err)
	}
}

// packageOf is the image of a package that no other test has, resolved.
func packageOf(t *testing.T, ctx context.Context, b *Backend) images.Image {
	t.Helper()
	i := unresolved(t, b.run)
	entry, err := b.Resolve(ctx, i, nil)
	if err != nil {
		t.Fatal(err)
	}
	i.Entry = &entry
	t.Cleanup(func() {
		if dockertest.ImageID(t, i.Tag()) != "" {
			dockertest.DropImage(t, i.Tag())
		}
	})
	return i
}

func unresolved(t *testing.T, name string) images.Image {
	t.Helper()
	p, ok, err := mcpconfig.ReadPackage("s", mcpconfig.Server{Command: "uvx", Args: []string{name}})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return images.New(p, images.Bases{}, nil, "linux/any")
}

func building(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), buildLimit)
	t.Cleanup(cancel)
	return ctx
}

func nothing(string) {}

// TestImages_Build builds one package with a mistake, and from two runs at once. A failed
// build returns the reason without secrets and leaves nothing behind, concurrent builds of
// one image both succeed, and the image's history, configuration and files hold nothing of
// the credentials for the registry.
func TestImages_Build(t *testing.T) {
	t.Parallel()
	b, index := openBuilder(t)
	ctx := building(t)
	i := packageOf(t, ctx, b)
	t.Run("fails", func(t *testing.T) { buildFails(t, ctx, b, index, i) })
	t.Run("at once", func(t *testing.T) { buildAtOnce(t, ctx, b, i) })
	t.Run("holds no secret", func(t *testing.T) { holdsNoSecret(t, ctx, b, index, i) })
}

func buildFails(t *testing.T, ctx context.Context, b *Backend, index *pypitest.Index, i images.Image) {
	t.Helper()
	tampered := *i.Entry
	tampered.PyPI = append([]images.PyPIPackage{}, tampered.PyPI...)
	tampered.PyPI[0].SHA256 = strings.Repeat("0", 64)
	i.Entry = &tampered
	err := b.EnsureImage(ctx, i, nothing)
	if err == nil || !strings.Contains(err.Error(), "THESE PACKAGES DO NOT MATCH THE HASHES") || strings.Contains(err.Error(), pypitest.Password) {
		t.Errorf("another wheel than the lock has: %v", err)
	}
	if _, err := b.Resolve(ctx, unresolved(t, b.run+"-nowhere"), nil); err == nil || !strings.Contains(err.Error(), "No matching distribution") {
		t.Errorf("a package that nobody has: %v", err)
	}
	reached := b.network.Env
	defer func() { b.network.Env = reached }()
	b.network.Env = map[string]string{"PIP_INDEX_URL": strings.Replace(index.URL, pypitest.User, "nobody", 1)}
	if _, err := b.Resolve(ctx, unresolved(t, b.run), nil); err == nil || strings.Contains(err.Error(), pypitest.Password) {
		t.Errorf("an index that refuses: %v", err)
	}
}

func buildAtOnce(t *testing.T, ctx context.Context, b *Backend, i images.Image) {
	t.Helper()
	other := openRun(t)
	other.network = b.network
	spec := &sandbox.Spec{Containers: []sandbox.ContainerSpec{{Name: "s", Container: sandbox.Container{Image: i.Tag()}, Build: i}}}
	said := map[*Backend]*[]string{b: {}, other: {}}
	var both sync.WaitGroup
	for one, lines := range said {
		both.Go(func() {
			if err := one.Prepare(ctx, []*sandbox.Spec{spec}, func(s string) { *lines = append(*lines, s) }); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	noStages(t, other)
	if got, want := b.Images()[i.Tag()].ID, other.Images()[i.Tag()].ID; got != want || got == "" {
		t.Errorf("the runs use %q and %q", got, want)
	}
	building := 0
	for _, lines := range said {
		building += strings.Count(strings.Join(*lines, "\n"), "building image for pypi:"+b.run+"@1.0")
	}
	if building == 0 {
		t.Errorf("nobody said that the image is built: %q and %q", *said[b], *said[other])
	}
	if err := b.EnsureImage(ctx, i, func(s string) { t.Errorf("built again: %s", s) }); err != nil {
		t.Error(err)
	}
}

func holdsNoSecret(t *testing.T, ctx context.Context, b *Backend, index *pypitest.Index, i images.Image) {
	t.Helper()
	inspect, err := b.engine.ImageInspect(ctx, i.Tag())
	if err != nil {
		t.Fatal(err)
	}
	if c := inspect.Config; c.User != "0" || c.Labels[labelImage] != imageServer || c.Labels[labelRun] != "" {
		t.Errorf("user %q, labels %v", c.User, c.Labels)
	}
	history, err := b.engine.ImageHistory(ctx, i.Tag())
	if err != nil {
		t.Fatal(err)
	}
	saved, err := b.engine.ImageSave(ctx, []string{i.Tag()})
	if err != nil {
		t.Fatal(err)
	}
	layers, err := io.ReadAll(saved)
	if err = errors.Join(err, saved.Close()); err != nil {
		t.Fatal(err)
	}
	inspected, _ := json.Marshal(inspect)
	steps, _ := json.Marshal(history)
	everything := bytes.Join([][]byte{inspected, steps, layers}, nil)
	if !bytes.Contains(everything, []byte("mark of "+b.run)) {
		t.Fatal("the package is not in its image as saved: is this test looking at anything?")
	}
	certificate := strings.Split(string(index.CA), "\n")[1]
	for what, secret := range map[string]string{
		"password": pypitest.Password, "registry": index.Addr, "certificate": certificate, "proxy": proxySecret,
	} {
		if bytes.Contains(everything, []byte(secret)) {
			t.Errorf("the image holds the %s", what)
		}
	}
}

// A cancelled build ends at once, and leaves nothing.
func TestImages_BuildCancelled(t *testing.T) {
	t.Parallel()
	b, _ := openBuilder(t)
	ctx, cancel := context.WithCancel(building(t))
	silent, err := net.Listen("tcp", net.JoinHostPort(dockertest.Gateway(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	b.network.Env = map[string]string{"PIP_INDEX_URL": "https://" + silent.Addr().String() + "/simple/"}
	asked := make(chan struct{})
	go func() {
		conn, err := silent.Accept()
		if err == nil {
			defer func() { _ = conn.Close() }()
			_, _ = conn.Read(make([]byte, 1))
		}
		close(asked)
		cancel()
	}()
	start := time.Now()
	if _, err := b.Resolve(ctx, unresolved(t, b.run), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after %s", err, time.Since(start))
	}
	_ = silent.Close()
	<-asked
	dockertest.Await(t, time.Minute, "no container of the build is left", func() bool {
		return len(dockertest.Containers(t, b.engine.Client, b.run)) == 1 // the lease
	})
}

// What a killed build leaves goes with its run, and what a live one has at hand
// stays, also the image that it made and has not tagged yet.
func TestGCRemovesStages(t *testing.T) {
	t.Parallel()
	live := openRun(t)
	dead := runID(t)
	stage := func(run string) string {
		t.Helper()
		var content bytes.Buffer
		w := tar.NewWriter(&content)
		dockerfile := "FROM scratch\nLABEL waza.run=" + run + "\n"
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "Dockerfile", Mode: 0o644, Size: int64(len(dockerfile))})
		_, writeErr := io.WriteString(w, dockerfile)
		if err := errors.Join(err, writeErr, w.Close()); err != nil {
			t.Fatal(err)
		}
		made, err := live.engine.ImageBuild(within(t), &content, client.ImageBuildOptions{Version: build.BuilderV1, Remove: true, ForceRemove: true})
		if err != nil {
			t.Fatal(err)
		}
		id, err := readBuild(made.Body, strings.Clone, nothing)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	of, ofDead, made := stage(live.run), stage(dead), stage("")
	defer dockertest.DropImage(t, made)
	gc(t)
	if dockertest.ImageID(t, made) == "" {
		t.Error("an image that a build has just made is gone")
	}
	if dockertest.ImageID(t, of) == "" || dockertest.ImageID(t, ofDead) != "" {
		t.Errorf("live run's stage %q, dead run's %q", dockertest.ImageID(t, of), dockertest.ImageID(t, ofDead))
	}
	if err := live.dropStages(within(t), ""); err != nil || dockertest.ImageID(t, of) != "" {
		t.Errorf("after the build: %q, %v", dockertest.ImageID(t, of), err)
	}
}

// TestBuildLogStacks checks that frames of stacks do not push the reason out.
func TestBuildLogStacks(t *testing.T) {
	var log buildLog
	log.add("npm error gyp ERR! find Python\n")
	log.add(strings.Repeat("npm error gyp ERR! stack     at Find.run (/opt/find.js:202:16)\nnpm error     at exit (node:child_process:424:5)\n", 20))
	log.add("look at it (again)\nnpm error gyp ERR! not ok\n")
	if want := []string{"npm error gyp ERR! find Python", "look at it (again)", "npm error gyp ERR! not ok"}; !slices.Equal(log.lines, want) {
		t.Errorf("%q", log.lines)
	}
}

// TestBuildLogSteps checks that the step that failed is told of, and what others printed is not.
func TestBuildLogSteps(t *testing.T) {
	const before = "Step 1/4 : FROM x\n ---> 1\nStep 2/4 : RUN npm ci\ninstalled 12 packages\n ---> 2\n"
	for _, test := range []struct{ printed, engine, want string }{
		{before + "Step 3/4 : COPY none /\n", "COPY failed: file not found in build context: stat none: file does not exist", "step 3/4, COPY none /, failed: COPY failed: file not found in build context: stat none: file does not exist"},
		{before + "Step 3/4 : RUN make it\n ---> Running in 1\nmake: oops\n", "The command '/bin/sh -c make it' returned a non-zero code: 2", "step 3/4, RUN make it, returned a non-zero code: 2; the build says:\nmake: oops"},
		{before + "Step 3/4 : RUN false\n", "The command '/bin/sh -c false' returned a non-zero code: 1", "step 3/4, RUN false, returned a non-zero code: 1"},
		{"Step 1/4 : FROM none\n", "pull access denied for none", "step 1/4, FROM none, failed: pull access denied for none"},
		{"STEP 2/4: ADD http://x.invalid/y /\n", "ADD failed: Get: no such host", "step 2/4, ADD http://x.invalid/y /, failed: ADD failed: Get: no such host\nhint: the build does not reach a host: see that the engine's builds reach the network, or set HTTPS_PROXY"},
		{before + "Step 3/4 : USER nobody\n", "no space left on device", "step 3/4, USER nobody, failed: no space left on device"},
		{"", "dockerfile parse error line 1: unknown instruction: FORM", "dockerfile parse error line 1: unknown instruction: FORM"},
		{"", "", ""},
	} {
		var log buildLog
		log.add(test.printed)
		if got := log.why(progressError(test.engine)); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// TestBuildHints has what programs print in builds that fail, and what is to be said of it.
func TestBuildHints(t *testing.T) {
	for _, test := range []struct{ printed, want string }{
		{"npm error gyp ERR! find Python Python is not set from command line or npm configuration\nnpm error gyp ERR! not ok", "lacks a compiler, make or Python: build on one"},
		{"npm error gyp ERR! stack Error: not found: make", "lacks a compiler, make or Python: build on one"},
		{"error: command 'gcc' failed: No such file or directory", "lacks a compiler, make or Python: build on one"},
		{"/bin/sh: 1: python3: not found", "needs Python, which"},
		{"/bin/sh: 1: git: not found", "needs git, which"},
		{"npm error code ENOTFOUND\nnpm error network request to https://registry.example failed", "does not reach a host"},
		{"WARNING: Retrying after connection broken by 'Failed to establish a new connection: [Errno -2] Name or service not known'\nERROR: No matching distribution found for x", "does not reach a host"},
		{"npm error code ECONNREFUSED\nnpm error errno ECONNREFUSED", "does not reach a host"},
		{"npm error code SELF_SIGNED_CERT_IN_CHAIN\nnpm error request to https://registry.example failed, reason: self-signed certificate in certificate chain", "have the Dockerfile copy its certificate authority"},
		{"src/index.ts(3,1): error TS2304: Cannot find name 'foo'.", ""},
	} {
		var log buildLog
		log.add(test.printed)
		if _, hint, _ := strings.Cut(log.why("x"), "\nhint: "); !strings.Contains(hint, test.want) || test.want == "" && hint != "" {
			t.Errorf("%q: hint %q, want %q", test.printed, hint, test.want)
		}
	}
}
