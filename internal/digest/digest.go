// Package digest computes the SHA-256 of files in hexadecimal.
package digest

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"sync"
)

// File is that of the file at path.
func File(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	return Of(file)
}

// Of is that of what r has.
func Of(r io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Once is [File] for files that stay as they are: it reads each of them once. It is
// safe for concurrent use.
func Once() func(path string) (string, error) {
	var mu sync.Mutex
	known := map[string]string{}
	return func(path string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if sum, ok := known[path]; ok {
			return sum, nil
		}
		sum, err := File(path)
		if err == nil {
			known[path] = sum
		}
		return sum, err
	}
}
