package session

import (
	"fmt"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// maxConfig is how many bytes of mcp.json are read.
const maxConfig = 1 << 20

// readConfig reads each server's URL.
func readConfig(path string) (map[string]string, error) {
	raw, err := files.Read(path, maxConfig)
	if err != nil {
		return nil, err
	}
	var config struct {
		Servers map[string]struct {
			Type string `json:"type"`
			URL  string `json:"url"`
		} `json:"mcpServers"`
	}
	if err := jsontext.Unmarshal(raw, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	urls := make(map[string]string, len(config.Servers))
	for name, server := range config.Servers {
		if server.Type != "http" || server.URL == "" {
			return nil, fmt.Errorf(`%s: server %q must have type "http" and a url`, path, name)
		}
		urls[name] = server.URL
	}
	return urls, nil
}
