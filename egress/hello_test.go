package egress

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
)

// helloOf is what a client of Go's begins with.
func helloOf(t testing.TB, name string) []byte {
	t.Helper()
	near, far := net.Pipe()
	go func() {
		_ = tls.Client(near, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	}()
	header := make([]byte, 5)
	if _, err := io.ReadFull(far, header); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(header[3])<<8|int(header[4]))
	if _, err := io.ReadFull(far, body); err != nil {
		t.Fatal(err)
	}
	_ = far.Close()
	_ = near.Close()
	return append(header, body...)
}

// recordsOf has a ClientHello in records of a size.
func recordsOf(hello []byte, size int) []byte {
	var all []byte
	for rest := hello[5:]; len(rest) > 0; {
		n := min(size, len(rest))
		all = append(all, 0x16, 3, 1, byte(n>>8), byte(n))
		all, rest = append(all, rest[:n]...), rest[n:]
	}
	return all
}

func TestReadHello(t *testing.T) {
	hello := helloOf(t, "api.example")
	for what, raw := range map[string][]byte{
		"whole": hello, "in pieces": recordsOf(hello, 7), "with more behind": append(bytes.Clone(hello), "more"...),
	} {
		name, read, err := readHello(bytes.NewReader(raw))
		if err != nil || name != "api.example" || !bytes.HasPrefix(raw, read) {
			t.Errorf("%s: %q, %v", what, name, err)
		}
	}
	twice := bytes.ReplaceAll(hello, []byte("api.example"), []byte("api.exampl."))
	for what, raw := range map[string][]byte{
		"cut": hello[:len(hello)-1], "a dot at the end": twice, "nothing": nil, "no TLS": []byte("\x16\x03\x01"), "an alert": {0x15, 3, 1, 0, 2, 1, 0},
		"too long": append([]byte{0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, bytes.Repeat([]byte{0}, 1<<20)...),
	} {
		if name, read, err := readHello(bytes.NewReader(raw)); err == nil || len(read) > maxHello {
			t.Errorf("%s: %q after %d bytes", what, name, len(read))
		}
	}
	if name, _, err := readHello(bytes.NewReader(helloOf(t, ""))); err != nil || name != "" {
		t.Errorf("without a name: %q, %v", name, err)
	}
}

// FuzzReadHello checks that no input panics, that the bytes read are unchanged, and that
// reading them again returns the same host.
func FuzzReadHello(f *testing.F) {
	hello := helloOf(f, "api.example")
	f.Add(hello)
	f.Add(recordsOf(hello, 100))
	f.Add(helloOf(f, ""))
	f.Add(bytes.ReplaceAll(hello, []byte("example"), []byte("exam\x00le")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		name, read, err := readHello(bytes.NewReader(raw))
		if len(read) > maxHello || !bytes.HasPrefix(raw, read) {
			t.Fatalf("read %d bytes of %d", len(read), len(raw))
		}
		if err != nil {
			return
		}
		again, _, err := readHello(bytes.NewReader(read))
		if err != nil || again != name {
			t.Fatalf("%q, then %q, %v", name, again, err)
		}
		if host, ok := canonical(name); ok && strings.ContainsAny(host, " \r\n\x00/@") {
			t.Fatalf("%q is a host", host)
		}
	})
}

// FuzzSplitHost checks that a Host that is read is written back as the same.
func FuzzSplitHost(f *testing.F) {
	for _, host := range []string{"api.example", "API.example:443", "[::1]:80", "127.1", "a:b:c", "a@b", "[a]:1", "::1", "1.2.3.4:080"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name, port, ok := splitHost(host)
		if !ok {
			return
		}
		if again, same := canonical(name); !same || again != name || port < 0 || port > 65535 {
			t.Fatalf("%q is %q port %d", host, name, port)
		}
	})
}
