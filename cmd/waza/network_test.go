package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/images"
)

func TestBuildNetwork(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a": "first", "b": "second"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{
		"NODE_EXTRA_CA_CERTS": filepath.Join(dir, "a"), "SSL_CERT_FILE": filepath.Join(dir, "b"), "PIP_CERT": filepath.Join(dir, "a"),
		"PIP_INDEX_URL": "https://pip.example/simple", "UV_DEFAULT_INDEX": "https://someone:pass-of-uv@uv.example/simple",
		"npm_config_registry": "https://token-of-npm@npm.example/", "HTTPS_PROXY": "http://u:pass-of-proxy@proxy.example", "no_proxy": "a.example",
		"AWS_SECRET_ACCESS_KEY": "not-to-be-passed",
	}
	secrets := &secret.Set{}
	n := buildNetwork(func(name string) (string, bool) { value, ok := env[name]; return value, ok }, secrets)
	want := images.Network{
		CA:    []byte("first\nsecond\n"),
		Env:   map[string]string{"PIP_INDEX_URL": env["UV_DEFAULT_INDEX"], "NPM_CONFIG_REGISTRY": env["npm_config_registry"]},
		Proxy: map[string]string{"HTTPS_PROXY": env["HTTPS_PROXY"], "no_proxy": "a.example"},
	}
	if diff := cmp.Diff(want, n); diff != "" {
		t.Error(diff)
	}
	// What only the user's own registries have is not looked for in the public ones. Tokens and passwords are not passed.
	home := t.TempDir()
	for name, content := range map[string]string{
		".npmrc":               "registry = https://someone:pass-of-npmrc@npm.example/\n@acme:registry=https://someone:pass@acme.example/\n//npm.example/:_authToken=token\n; registry=https://no.example\n@b:registry=${X}\n",
		".config/pip/pip.conf": "[global]\nindex-url = https://pip.example/simple\nextra-index-url=https://some:p@ss@more.example/simple https://token@b.example/\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700), os.WriteFile(filepath.Join(home, name), []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	own := map[string]string{"HOME": home, "NODE_EXTRA_CA_CERTS": filepath.Join(dir, "a")}
	n = buildNetwork(func(name string) (string, bool) { value, ok := own[name]; return value, ok }, secrets)
	want = images.Network{CA: []byte("first\n"), NPMRC: "@acme:registry=https://acme.example/\n", Proxy: map[string]string{}, Env: map[string]string{
		"NPM_CONFIG_REGISTRY": "https://npm.example/", "PIP_INDEX_URL": "https://pip.example/simple", "PIP_EXTRA_INDEX_URL": "https://more.example/simple https://b.example/",
	}}
	if diff := cmp.Diff(want, n); diff != "" {
		t.Error(diff)
	}
	own["NPM_CONFIG_REGISTRY"] = "https://named.example/"
	if n = buildNetwork(func(name string) (string, bool) { value, ok := own[name]; return value, ok }, secrets); n.Env["NPM_CONFIG_REGISTRY"] != "https://named.example/" {
		t.Errorf("%q", n.Env)
	}
	for _, secret := range []string{"pass-of-uv", "token-of-npm", "pass-of-proxy"} {
		if got := secrets.String("it says " + secret); strings.Contains(got, secret) {
			t.Errorf("not redacted: %s", got)
		}
	}
}
