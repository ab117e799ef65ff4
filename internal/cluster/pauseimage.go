package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
)

const pauseImage = "waza.local/pause:1"

// writePauseImage writes the image of the program pause, which is next to this executable,
// in the format of docker save.
func writePauseImage(path string) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(filepath.Dir(executable) + "/pause")
	if err != nil {
		return err
	}
	layer, err := archive(0o755, file{"pause", program})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/pause"}, "User": "65535:65535"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": "config.json", "RepoTags": []string{pauseImage}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	image, err := archive(0o644, file{"layer.tar", layer}, file{"config.json", config}, file{"manifest.json", manifest})
	if err != nil {
		return err
	}
	return os.WriteFile(path, image, 0o600)
}

type file struct {
	name string
	data []byte
}

func archive(mode int64, files ...file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: mode, Size: int64(len(f.data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}
