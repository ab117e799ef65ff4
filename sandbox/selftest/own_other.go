//go:build !unix

package selftest

import (
	"context"
	"io/fs"
)

// ownAlone returns true: the directory belongs to the user.
func ownAlone(fs.FileInfo) bool { return true }

// lock does nothing on this system: runs that start together probe separately.
func (c Cache) lock(context.Context) (func(), error) { return func() {}, nil }
