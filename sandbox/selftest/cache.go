package selftest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// validity is how long a certificate is valid.
const validity = 24 * time.Hour

// maxFile is the maximum size of a certificate in bytes.
const maxFile = 256 << 10

// Cache stores certificates in a directory, by engine and kind of sandbox, and by the build of
// waza, which plans sandboxes. The zero value stores none.
type Cache struct{ dir, build string }

var errNoCache = errors.New("there is no cache directory of yours outside of the project")

// OpenCache returns a cache in dir/waza/certificates, which is created on first use; dir is the
// user's cache directory.
func OpenCache(dir string) Cache { return Cache{dir: filepath.Join(dir, "waza", "certificates")} }

// Of returns the part of the cache for a build of waza.
func (c Cache) Of(build string) Cache { return Cache{c.dir, build} }

// path returns the path of the certificate for an engine and a kind of sandbox.
func (c Cache) path(engine map[string]string, kind evidence.SandboxKind) string {
	key, _ := json.Marshal(struct { // strings always marshal
		Build  string
		Engine map[string]string
		Kind   evidence.SandboxKind
	}{c.build, engine, kind})
	sum := sha256.Sum256(key)
	return filepath.Join(c.dir, hex.EncodeToString(sum[:16])+".json")
}

// Find returns the certificate for an engine and a kind. Certificates that are expired, dated
// in the future, incomplete or of another user are ignored.
func (c Cache) Find(engine map[string]string, kind evidence.SandboxKind, now time.Time) (evidence.Certificate, bool) {
	if c.dir == "" || c.check() != nil {
		return evidence.Certificate{}, false
	}
	data, err := readOwn(c.path(engine, kind))
	if err != nil {
		return evidence.Certificate{}, false
	}
	found, err := parse(data)
	age := now.Sub(found.At)
	if err != nil || age < 0 || age > validity || found.Kind != kind || !maps.Equal(found.Engine, engine) {
		return evidence.Certificate{}, false
	}
	found.Probed = evidence.ProbedCached
	return found, true
}

// Keep writes a certificate atomically.
func (c Cache) Keep(cert evidence.Certificate) error {
	cert.Attacks = slices.Clone(cert.Attacks)
	for i := range cert.Attacks {
		cert.Attacks[i].Allowed = false // the next run decides for itself
	}
	if c.dir == "" {
		return errNoCache
	}
	if err := c.make(); err != nil {
		return err
	}
	return evidence.WriteJSON(c.path(cert.Engine, cert.Kind), cert)
}

// make creates the directory, which must then be this user's alone.
func (c Cache) make() error {
	if err := c.check(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	return c.check()
}

// check returns an error if another user could change what the directory holds, or if it leads
// elsewhere.
func (c Cache) check() error {
	for _, dir := range []string{filepath.Dir(c.dir), c.dir} {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if !info.IsDir() || !ownAlone(info) {
			return fmt.Errorf("%s must be a directory that only you can write to, and no link", dir)
		}
	}
	return nil
}

// readOwn reads a file that belongs to this user and that nobody else can write.
func readOwn(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile || !ownAlone(info) {
		return nil, fmt.Errorf("%s is not a certificate of ours", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// parse parses a certificate, which must list every attack once and in order.
func parse(data []byte) (evidence.Certificate, error) {
	var c evidence.Certificate
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return c, errors.New("there is more after the certificate")
	}
	known := probe.Attacks()
	if len(c.Attacks) != len(known) {
		return c, fmt.Errorf("it has %d attacks, and there are %d", len(c.Attacks), len(known))
	}
	results := []evidence.AttackResult{evidence.AttackHeld, evidence.AttackGotOut, evidence.AttackNotTried}
	for i, a := range c.Attacks {
		if a.Name != known[i].Name || a.Goal != known[i].Goal || a.Allowed || !slices.Contains(results, a.Result) {
			return c, fmt.Errorf("attack %d is not as we know it", i)
		}
	}
	return c, nil
}

// Obtain returns a certificate for a kind of sandbox: a cached one, or a new one, which it
// caches. allow names attacks that may get out; they are marked, and holes describes each other
// one that got out. If there are holes, the sandbox is probed again each time, since they may
// have been fixed. say is called with progress messages, and if the certificate cannot be
// cached.
func Obtain(ctx context.Context, b Backend, run string, kind evidence.SandboxKind, cache Cache, allow []string, say func(string)) (_ evidence.Certificate, holes []string, err error) {
	usable := func() (evidence.Certificate, bool) {
		c, ok := cache.Find(b.Describe(), kind, time.Now())
		return c, ok && len(markAllowed(&c, allow)) == 0
	}
	if c, ok := usable(); ok {
		return c, nil, nil
	}
	release, err := cache.lock(ctx)
	switch {
	case ctx.Err() != nil:
		return evidence.Certificate{}, nil, ctx.Err()
	case err != nil:
		say(fmt.Sprintf("the certificate of this run will not be kept: %v", err))
	default:
		defer release()
		if c, ok := usable(); ok { // made by another process meanwhile
			return c, nil, nil
		}
	}
	say(fmt.Sprintf("checking that nothing gets out of a sandbox with network %s; this is done once a day", kind.Network))
	c, err := Probe(ctx, b, run, kind)
	if err != nil {
		return c, nil, err
	}
	if release != nil {
		if err := cache.Keep(c); err != nil {
			say(fmt.Sprintf("the certificate of this run will not be kept: %v", err))
		}
	}
	holes = markAllowed(&c, allow)
	return c, holes, nil
}
