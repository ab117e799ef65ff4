package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence/redact"
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
	secrets := &redact.Set{}
	n := buildNetwork(func(name string) (string, bool) { value, ok := env[name]; return value, ok }, secrets)
	want := images.Network{
		CA:    []byte("first\nsecond\n"),
		Env:   map[string]string{"PIP_INDEX_URL": env["UV_DEFAULT_INDEX"], "NPM_CONFIG_REGISTRY": env["npm_config_registry"]},
		Proxy: map[string]string{"HTTPS_PROXY": env["HTTPS_PROXY"], "no_proxy": "a.example"},
	}
	if diff := cmp.Diff(want, n); diff != "" {
		t.Error(diff)
	}
	for _, secret := range []string{"pass-of-uv", "token-of-npm", "pass-of-proxy"} {
		if got := secrets.String("it says " + secret); strings.Contains(got, secret) {
			t.Errorf("not redacted: %s", got)
		}
	}
}
