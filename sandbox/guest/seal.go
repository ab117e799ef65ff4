package guest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
)

// Sealed is an argument of [Main] that makes process 1 encrypt its stdout with a key that it first
// reads from its stdin. Engines log what a container writes, but not what it reads, so their logs
// contain nothing that others can read.
const Sealed = "sealed"

const sealKeySize = 32 // AES-256

// Seal sends a key to a program that encrypts its output, and returns the decrypted pipe.
func Seal(pipe io.ReadWriteCloser) (io.ReadWriteCloser, error) {
	key := make([]byte, sealKeySize)
	_, _ = rand.Read(key) // never fails
	stream, err := sealStream(key)
	if err == nil {
		_, err = pipe.Write(key)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("seal: %w", err), pipe.Close())
	}
	return sealedPipe{cipher.StreamReader{S: stream, R: pipe}, pipe, pipe}, nil
}

// sealTo reads the key from r, and returns a writer that encrypts to w.
func sealTo(w io.Writer, r io.Reader) (io.Writer, error) {
	key := make([]byte, sealKeySize)
	if _, err := io.ReadFull(r, key); err != nil {
		return nil, fmt.Errorf("the key to seal with: %w", err)
	}
	stream, err := sealStream(key)
	return cipher.StreamWriter{S: stream, W: w}, err
}

// sealStream returns the key stream of a key. Each key is used only once, so it needs no
// initialization vector.
func sealStream(key []byte) (cipher.Stream, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewCTR(block, make([]byte, aes.BlockSize)), nil
}

type sealedPipe struct {
	io.Reader
	io.Writer
	io.Closer
}
