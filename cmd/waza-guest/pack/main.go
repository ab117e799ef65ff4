// Command pack compresses waza-guest, with its SHA-256 as the comment; scripts/guest uses it.
//
//	pack < waza-guest > ARCH.gz
package main

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := pack(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack(from io.Reader, to io.Writer) error {
	guest, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	w, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(guest)
	w.Comment = hex.EncodeToString(sum[:])
	_, err = w.Write(guest)
	return errors.Join(err, w.Close())
}
