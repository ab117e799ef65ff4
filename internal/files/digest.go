package files

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"sync"
)

// Digest returns the SHA-256 of the file at path in hexadecimal.
func Digest(path string) (string, error) {
	file, err := Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	return DigestOf(file)
}

// DigestOf returns the SHA-256 of the content of r in hexadecimal.
func DigestOf(r io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := Copy(sum, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// buffers are shared by copies.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// Copy is like [io.Copy] with a pooled buffer, since allocating one for each of thousands
// of small files would dominate time and memory.
func Copy(to io.Writer, from io.Reader) (int64, error) {
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buffer[:])
}

// DigestOnce returns a function like [Digest] for files that do not change: it reads each
// file once. It is safe for concurrent use.
func DigestOnce() func(path string) (string, error) {
	var mu sync.Mutex
	known := map[string]string{}
	return func(path string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if sum, ok := known[path]; ok {
			return sum, nil
		}
		sum, err := Digest(path)
		if err == nil {
			known[path] = sum
		}
		return sum, err
	}
}
