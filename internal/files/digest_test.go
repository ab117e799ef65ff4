package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waza-isolate/waza/internal/files"
)

func TestOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	of := files.DigestOnce()
	if sum, err := of(path); err == nil {
		t.Errorf("of no file: %s", sum)
	}
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if sum, err := of(path); err != nil || sum != abc {
		t.Errorf("%s, %v; want %s", sum, err, abc)
	}
	if err := os.WriteFile(path, []byte("abcd"), 0o600); err != nil {
		t.Fatal(err)
	}
	if sum, err := of(path); err != nil || sum != abc {
		t.Errorf("the file is read again: %s, %v", sum, err)
	}
	if sum, err := files.Digest(path); err != nil || sum == abc {
		t.Errorf("File does not read again: %s, %v", sum, err)
	}
}
