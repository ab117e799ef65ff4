package dockertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// Registry is an image registry on the loopback interface with one small, unique image.
type Registry struct {
	Host  string // as in references
	Image string // reference of its image, by tag

	arch, user, password string

	mu       sync.Mutex
	asked    int               // guarded by mu
	manifest []byte            // of the newest image; guarded by mu
	blobs    map[string][]byte // by digest; guarded by mu
}

const (
	repository   = "team/tiny"
	manifestType = "application/vnd.docker.distribution.manifest.v2+json"
)

// ServeRegistry serves a registry until the test ends. Its image is for arch (a GOARCH
// value) and contains the file /greeting. An empty user means no login.
func ServeRegistry(t testing.TB, arch, user, password string) *Registry {
	t.Helper()
	r := &Registry{arch: arch, user: user, password: password, blobs: map[string][]byte{}}
	r.Renew(t)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.Host = strings.TrimPrefix(server.URL, "http://")
	r.Image = r.Host + "/" + repository + ":1"
	return r
}

// Asked returns the number of requests received.
func (r *Registry) Asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// Forget removes images pulled from the registry from the engine.
func (r *Registry) Forget(t testing.TB, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), lookTimeout)
	defer cancel()
	pulled, err := c.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("reference", r.Host+"/*/*")})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range pulled.Items {
		if err := dropImage(ctx, c, i.ID); err != nil && !errdefs.IsNotFound(err) {
			t.Error(err)
		}
	}
}

// Pinned returns the reference of the newest image by digest.
func (r *Registry) Pinned() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Host + "/" + repository + "@" + digestOf(r.manifest)
}

// Renew replaces the image of the tag with another.
func (r *Registry) Renew(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fill(); err != nil {
		t.Fatal(err)
	}
}

// fill creates the image: one layer, its configuration and its manifest (OCI image
// specification, with Docker's media types).
func (r *Registry) fill() error {
	greeting := []byte("hello " + rand.Text() + "\n")
	var layer, packed bytes.Buffer
	out := tar.NewWriter(&layer)
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "greeting", Mode: 0o644, Size: int64(len(greeting))}); err != nil {
		return err
	}
	if _, err := out.Write(greeting); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(layer.Bytes()); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": r.arch, "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(layer.Bytes())}},
	})
	if err != nil {
		return err
	}
	r.manifest, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": r.keep("application/vnd.docker.container.image.v1+json", config),
		"layers": []any{r.keep("application/vnd.docker.image.rootfs.diff.tar.gzip", packed.Bytes())},
	})
	return err
}

// keep stores a blob and returns its descriptor.
func (r *Registry) keep(mediaType string, blob []byte) map[string]any {
	r.blobs[digestOf(blob)] = blob
	return map[string]any{"mediaType": mediaType, "size": len(blob), "digest": digestOf(blob)}
}

// ServeHTTP serves the requests of a pull (OCI distribution specification).
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if user, password, _ := q.BasicAuth(); r.user != "" && (user != r.user || password != r.password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
		return
	}
	base := "/v2/" + repository
	reference, isManifest := strings.CutPrefix(q.URL.Path, base+"/manifests/")
	blob, isBlob := strings.CutPrefix(q.URL.Path, base+"/blobs/")
	switch {
	case q.URL.Path == "/v2/":
	case isManifest && (reference == "1" || reference == digestOf(r.manifest)):
		w.Header().Set("Docker-Content-Digest", digestOf(r.manifest))
		serve(w, q, manifestType, r.manifest)
	case isBlob && r.blobs[blob] != nil:
		serve(w, q, "application/octet-stream", r.blobs[blob])
	default:
		http.NotFound(w, q)
	}
}

func serve(w http.ResponseWriter, q *http.Request, mediaType string, content []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	if q.Method == http.MethodGet {
		_, _ = w.Write(content)
	}
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}
