package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cpuguy83/dockercfg"
	"github.com/moby/moby/api/types/registry"

	"github.com/waza-isolate/waza/internal/bounded"
)

const (
	// helperTimeout bounds running a credential helper.
	helperTimeout = 30 * time.Second
	// maxCredential is how many bytes of its output are read.
	maxCredential = 64 << 10
)

// loginFor returns the login that the docker command would use for a registry: from the
// credential helper for the host, the credential store, or the configuration file. It is empty
// if there is none. Errors contain no secrets.
func loginFor(ctx context.Context, host string) (registry.AuthConfig, error) {
	dir := dockerConfigDir()
	if dir == "" {
		return registry.AuthConfig{}, nil
	}
	file := filepath.Join(dir, "config.json")
	var config dockercfg.Config
	switch err := dockercfg.FromFile(file, &config); {
	case errors.Is(err, fs.ErrNotExist):
		return registry.AuthConfig{}, nil
	case err != nil:
		return registry.AuthConfig{}, fmt.Errorf("the Docker configuration %s cannot be read: %w", file, err)
	}
	host = dockercfg.ResolveRegistryHost(host)
	if helper := config.CredentialHelpers[host]; helper != "" {
		return askHelper(ctx, helper, host)
	}
	if config.CredentialsStore != "" {
		if auth, err := askHelper(ctx, config.CredentialsStore, host); err != nil || auth != (registry.AuthConfig{}) {
			return auth, err
		}
	}
	return ownAuth(config.AuthConfigs, host)
}

// ownAuth returns the login for host from auths, whose keys may be URLs.
func ownAuth(auths map[string]dockercfg.AuthConfig, host string) (registry.AuthConfig, error) {
	own, ok := auths[host]
	for key, other := range auths {
		if !ok && hostOf(key) == host {
			own = other
		}
	}
	auth := registry.AuthConfig{
		Username: own.Username, Password: own.Password, ServerAddress: host,
		IdentityToken: own.IdentityToken, RegistryToken: own.RegistryToken,
	}
	if own.Auth != "" {
		var err error
		if auth.Username, auth.Password, err = dockercfg.DecodeBase64Auth(own); err != nil {
			return registry.AuthConfig{}, fmt.Errorf("the Docker configuration's auth for %s cannot be read; log in again with: docker login %[1]s", host)
		}
	}
	if auth == (registry.AuthConfig{ServerAddress: host}) {
		return registry.AuthConfig{}, nil
	}
	return auth, nil
}

func hostOf(key string) string {
	if _, rest, isURL := strings.Cut(key, "://"); isURL {
		key = rest
	}
	host, _, _ := strings.Cut(key, "/")
	return host
}

// askHelper runs the credential helper docker-credential-NAME, which reads the host and writes
// JSON. Errors do not contain its output.
func askHelper(ctx context.Context, name, host string) (registry.AuthConfig, error) {
	program := "docker-credential-" + name
	path, err := exec.LookPath(program)
	if err != nil {
		return registry.AuthConfig{}, fmt.Errorf("the Docker configuration names the credential helper %s, which is not installed; install it, or remove it from the configuration", program)
	}
	ctx, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	answer := &bounded.Head{Limit: maxCredential, Fail: errors.New("too much")}
	cmd := exec.CommandContext(ctx, path, "get")
	cmd.Stdin, cmd.Stdout, cmd.WaitDelay = strings.NewReader(host), answer, time.Second
	if err := cmd.Run(); err != nil {
		if strings.TrimSpace(answer.String()) == dockercfg.ErrCredentialsNotFound.Error() {
			return registry.AuthConfig{}, nil
		}
		return registry.AuthConfig{}, fmt.Errorf("the credential helper %s failed; see what it says to: echo %s | %[1]s get: %[3]w", program, host, err)
	}
	var found struct{ Username, Secret string }
	if json.Unmarshal(answer.Bytes(), &found) != nil {
		return registry.AuthConfig{}, fmt.Errorf("the credential helper %s answered with something else than JSON", program)
	}
	if found.Username == tokenUser {
		return registry.AuthConfig{IdentityToken: found.Secret, ServerAddress: host}, nil
	}
	return registry.AuthConfig{Username: found.Username, Password: found.Secret, ServerAddress: host}, nil
}

// tokenUser is the user name that a helper returns if the secret is an identity token (protocol
// of docker-credential-helpers).
const tokenUser = "<token>"
