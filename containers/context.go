package containers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/docker/docker/client"
)

// engineHost is where the docker command would find its engine: DOCKER_HOST, else
// the chosen context's endpoint (Docker Desktop, colima and rootless engines are
// found through one), else "" for the default socket.
func engineHost() string {
	if host := os.Getenv(client.EnvOverrideHost); host != "" {
		return host
	}
	dir := dockerConfigDir()
	if dir == "" {
		return ""
	}
	return contextHost(dir, os.Getenv("DOCKER_CONTEXT"))
}

// dockerConfigDir is where the docker command keeps its configuration; empty where
// there is no such place.
func dockerConfigDir() string {
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

// contextHost reads the endpoint of the context called name, or of the current
// one, from the docker command's configuration. What cannot be read is no
// context.
func contextHost(dir, name string) string {
	if name == "" {
		var config struct {
			CurrentContext string `json:"currentContext"`
		}
		readInto(filepath.Join(dir, "config.json"), &config)
		name = config.CurrentContext
	}
	if name == "" || name == "default" {
		return ""
	}
	// The docker command names a context's directory by the digest of its name.
	sum := sha256.Sum256([]byte(name))
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	readInto(filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json"), &meta)
	return meta.Endpoints["docker"].Host
}

func readInto(path string, v any) {
	if data, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(data, v)
	}
}
