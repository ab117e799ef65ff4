package containers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/registry"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/offline"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	registryUser     = "reader"
	registryPassword = "hunter2:of:the:registry"
)

// dockerConfig is the Docker configuration of this test alone.
func dockerConfig(t *testing.T, content string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	if content == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// helper puts a credential helper into PATH that answers with a script's output.
func helper(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-"+name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// privateRegistry serves a registry that wants a login. What was pulled from it is
// removed at the test's end.
func privateRegistry(t *testing.T, e *engine) *dockertest.Registry {
	t.Helper()
	r := dockertest.ServeRegistry(t, e.arch(), registryUser, registryPassword)
	t.Cleanup(func() { r.Forget(t, e.Client) })
	return r
}

func dial(t *testing.T) *engine {
	t.Helper()
	dockertest.Require(t)
	e, err := dialEngine(within(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Client.Close() })
	return e
}

// An image of a private registry is pulled with what the Docker configuration has
// for it, wherever that keeps it; errors say what to do and hold no password.
func TestPrivateRegistry(t *testing.T) {
	e := dial(t)
	r := privateRegistry(t, e)
	answer := fmt.Sprintf(`read host; test "$1 $host" = "get %s" && echo '{"ServerURL":"x","Username":"%s","Secret":"%s"}'`, r.Host, registryUser, registryPassword)
	for name, test := range map[string]struct {
		config, script string
		want           []string // in the error; none: it is pulled
	}{
		"auth":                  {`{"auths": {"` + r.Host + `": {"auth": "` + basic(registryUser, registryPassword) + `"}}}`, "", nil},
		"user and password":     {`{"auths": {"` + r.Host + `": {"username": "` + registryUser + `", "password": "` + registryPassword + `"}}}`, "", nil},
		"auth under a URL":      {`{"auths": {"http://` + r.Host + `/v2/": {"auth": "` + basic(registryUser, registryPassword) + `"}}}`, "", nil},
		"store":                 {`{"credsStore": "test"}`, answer, nil},
		"helper of the host":    {`{"credsStore": "none-such", "credHelpers": {"` + r.Host + `": "test"}}`, answer, nil},
		"store without, auths":  {`{"credsStore": "test", "auths": {"` + r.Host + `": {"auth": "` + basic(registryUser, registryPassword) + `"}}}`, "echo credentials not found in native keychain; exit 1", nil},
		"no configuration":      {"", "", []string{"needs a login", "docker login " + r.Host}},
		"another host's":        {`{"auths": {"registry.example": {"auth": "` + basic(registryUser, registryPassword) + `"}}}`, "", []string{"needs a login", "docker login " + r.Host}},
		"wrong password":        {`{"auths": {"` + r.Host + `": {"auth": "` + basic(registryUser, "wr0ng") + `"}}}`, "", []string{"refuses the login", "docker login " + r.Host}},
		"auth that is no auth":  {`{"auths": {"` + r.Host + `": {"auth": "hunter2?"}}}`, "", []string{"auth for " + r.Host + " cannot be read"}},
		"missing store":         {`{"credsStore": "none-such"}`, "", []string{"credential helper docker-credential-none-such, which is not installed; install it"}},
		"missing helper":        {`{"credHelpers": {"` + r.Host + `": "none-such"}}`, "", []string{"docker-credential-none-such, which is not installed"}},
		"helper that fails":     {`{"credsStore": "test"}`, "echo hunter2; exit 1", []string{"docker-credential-test failed"}},
		"helper that babbles":   {`{"credsStore": "test"}`, "echo hunter2", []string{"something else than JSON"}},
		"helper without an end": {`{"credsStore": "test"}`, "yes hunter2", []string{"docker-credential-test failed"}},
		"broken configuration":  {`{"auths": hunter2}`, "", []string{"config.json cannot be read"}},
	} {
		t.Run(name, func(t *testing.T) {
			dockerConfig(t, test.config)
			if test.script != "" {
				helper(t, "test", test.script)
			}
			defer r.Forget(t, e.Client)
			info, err := e.ensureImage(within(t), r.Image, mcpconfig.PullMissing, func(string) {})
			if len(test.want) == 0 {
				if err != nil || info.ID == "" {
					t.Errorf("%+v, %v", info, err)
				}
				return
			}
			if err == nil {
				t.Fatal("it is pulled")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("error %q tells the password", err)
			}
		})
	}
}

// What engines say of registries, and what is made of it.
func TestExplainPull(t *testing.T) {
	for said, want := range map[string]string{
		`Head "http://registry.example/v2/a/manifests/1": no basic auth credentials`:                                            "its registry needs a login, as by docker login registry.example: ",
		"unauthorized: authentication required":                                                                                 "its registry needs a login",
		"pull access denied for a, repository does not exist or may require 'docker login': denied: requested access is denied": "build it; if it is private, its registry needs a login",
		"manifest for registry.example/a:1 not found: manifest unknown":                                                         "build it: manifest",
		`Get "https://registry.example/v2/": dial tcp: lookup registry.example: no such host`:                                   "the engine does not reach registry.example: see its network and proxy, or build it: Get",
	} {
		if got := explainPull(errors.New(said), nil, false, "registry.example", "build it"); !strings.HasPrefix(got.Error(), want) {
			t.Errorf("%s\nis explained as %v", said, got)
		}
	}
	if got := explainPull(errors.New("denied: no"), nil, true, "registry.example", "build it"); !strings.HasPrefix(got.Error(), "its registry refuses the login") {
		t.Errorf("with a login: %v", got)
	}
}

// Helpers that give an identity token say so by their user.
func TestIdentityToken(t *testing.T) {
	dockerConfig(t, `{"credsStore": "token"}`)
	helper(t, "token", `echo '{"Username":"<token>","Secret":"abc"}'`)
	got, err := loginFor(within(t), "registry.example")
	want := registry.AuthConfig{IdentityToken: "abc", ServerAddress: "registry.example"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestOffline holds that nothing is pulled, built or resolved without leave to fetch, while what the engine
// has is used, by its tag and by its digest.
func TestOffline(t *testing.T) {
	e := dial(t)
	r := dockertest.ServeRegistry(t, e.arch(), "", "")
	t.Cleanup(func() { r.Forget(t, e.Client) })
	dockerConfig(t, "")
	ctx := offline.Context(within(t))
	get := func(ctx context.Context, ref, policy string) error {
		_, err := e.ensureImage(ctx, ref, policy, nothing)
		return err
	}
	b := &builder{engine: e, run: "offline", redact: func(s string) string { return s }}
	p := unresolved(t, "no-such-package")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM "+r.Host+"/team/base:1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	source, err := images.ReadSource(dir, mcpconfig.Build{}, images.Bases{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, resolved := b.Resolve(ctx, p, &images.Lock{})
	for name, err := range map[string]error{
		"missing": get(ctx, r.Image, mcpconfig.PullMissing), "always": get(ctx, r.Image, mcpconfig.PullAlways), "digest": get(ctx, r.Pinned(), ""),
		"build": b.EnsureImage(ctx, source, nothing), "resolve": resolved,
	} {
		if !errors.Is(err, offline.ErrOffline) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := r.Asked(); n > 0 {
		t.Fatalf("the registry was asked %d times", n)
	}
	if err := get(within(t), r.Image, ""); err != nil {
		t.Fatal(err)
	}
	asked := r.Asked()
	if err := errors.Join(get(ctx, r.Image, ""), get(ctx, r.Pinned(), ""), get(ctx, r.Pinned(), mcpconfig.PullNever)); err != nil || r.Asked() > asked {
		t.Errorf("an image that is there: %v, asked %d times", err, r.Asked()-asked)
	}
	if absent, err := Absent(ctx, []string{r.Image, r.Pinned(), r.Host + "/team/other:1"}); err != nil || !slices.Equal(absent, []string{r.Host + "/team/other:1"}) {
		t.Errorf("absent: %q, %v", absent, err)
	}
}

// TestPullPolicy checks when images are pulled, and what the run's record holds about them.
func TestPullPolicy(t *testing.T) {
	e := dial(t)
	r := dockertest.ServeRegistry(t, e.arch(), "", "")
	t.Cleanup(func() { r.Forget(t, e.Client) })
	dockerConfig(t, "")
	have := func(ref, policy string, asks bool) imageInfo {
		t.Helper()
		before, said := r.Asked(), ""
		info, err := e.ensureImage(within(t), ref, policy, func(what string) { said = what })
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Asked() > before; got != asks || got != (said == "pulling image "+ref) {
			t.Errorf("%s with %q: the registry was asked: %t, said %q", ref, policy, got, said)
		}
		return info
	}
	refused := func(ref, policy, want string) {
		t.Helper()
		if _, err := e.ensureImage(within(t), ref, policy, func(string) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s with %q: %v, want %q", ref, policy, err, want)
		}
	}
	refused(r.Image, mcpconfig.PullNever, "is not on the engine and its pull policy is never; pull or build it yourself")
	if r.Asked() > 0 {
		t.Error("never asked the registry")
	}
	first := have(r.Image, mcpconfig.PullMissing, true)
	if !slices.Equal(first.Digests, []string{r.Pinned()}) {
		t.Errorf("digests %q, want %q", first.Digests, r.Pinned())
	}
	have(r.Pinned(), mcpconfig.PullNever, false)
	r.Renew(t)
	for _, policy := range []string{mcpconfig.PullMissing, "", mcpconfig.PullNever} {
		if info := have(r.Image, policy, false); info.ID != first.ID {
			t.Errorf("%q gave another image", policy)
		}
	}
	newest := have(r.Image, mcpconfig.PullAlways, true)
	if newest.ID == first.ID || !slices.Contains(newest.Digests, r.Pinned()) {
		t.Errorf("always gave %+v, want %s", newest, r.Pinned())
	}
	r.Forget(t, e.Client)
	if info := have(r.Pinned(), mcpconfig.PullMissing, true); info.ID != newest.ID {
		t.Errorf("by digest it is %s, want %s", info.ID, newest.ID)
	}
	r.Forget(t, e.Client)
	if info := have(strings.Replace(r.Pinned(), "@", ":1@", 1), mcpconfig.PullMissing, true); info.ID != newest.ID {
		t.Errorf("by tag and digest it is %s, want %s", info.ID, newest.ID)
	}
	refused(r.Host+"/nobody/has:this", mcpconfig.PullAlways, "has the pull policy always and cannot be pulled")
	refused(r.Host+"/nobody/has:this", mcpconfig.PullMissing, "is not on the engine and cannot be pulled")
}

func TestPolicyOfAnImageThatSeveralUse(t *testing.T) {
	for want, pulls := range map[string][]string{
		mcpconfig.PullAlways: {"never", "always", ""}, mcpconfig.PullMissing: {"never", ""}, mcpconfig.PullNever: {"never", "never"},
	} {
		all := []sandbox.ContainerSpec{{Container: sandbox.Container{Image: "other", Pull: "always"}}}
		for _, pull := range pulls {
			all = append(all, sandbox.ContainerSpec{Container: sandbox.Container{Image: "i", Pull: pull}})
		}
		if got := pullPolicy("i", all); got != want {
			t.Errorf("%q: %s, want %s", pulls, got, want)
		}
	}
}

// The image built for a package has a tag chosen by waza. It is never pulled: the owner of
// that name on a registry would choose the program.
func TestBuiltImagesAreNotPulled(t *testing.T) {
	built := sandbox.ContainerSpec{Container: sandbox.Container{Image: "waza-server:0", Pull: "always"}, Build: images.Image{}}
	if got := pullPolicy("waza-server:0", []sandbox.ContainerSpec{built}); got != mcpconfig.PullNever {
		t.Errorf("got %s", got)
	}
}

func TestPlatform(t *testing.T) {
	e := &engine{}
	e.info.OSType, e.info.Architecture = "linux", "aarch64"
	for platform, want := range map[string]bool{"": true, "linux/arm64": true, "linux/arm64/v8": true, "Linux/ARM64": true, "linux/amd64": false, "windows/arm64": false, "linux/arm/v7": false} {
		err := e.checkPlatforms([]sandbox.ContainerSpec{{Name: "s", Container: sandbox.Container{Platform: platform}}})
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "the engine's is linux/arm64") {
			t.Errorf("%q: %v", platform, err)
		}
	}
}
