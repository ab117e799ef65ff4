// Package pypitest serves a Python package index (PEP 503) with wheels created by a test.
package pypitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// User and Password are the credentials of an index.
const (
	User     = "builder"
	Password = "letmein-4711-index"
)

// Index is a running index. It is closed when the test ends.
type Index struct {
	URL  string // of its simple API, with User and Password
	Addr string // host:port
	CA   []byte // the certificate to trust, PEM
	// Hits counts connections, including failed ones.
	Hits atomic.Int64
}

// Serve serves wheels at an address of this machine that builds can reach.
func Serve(t testing.TB, host string, wheels ...Wheel) *Index {
	t.Helper()
	certificate, ca := certify(t, net.ParseIP(host))
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	i := &Index{Addr: ln.Addr().String(), CA: ca}
	i.URL = fmt.Sprintf("https://%s:%s@%s/simple/", User, Password, i.Addr)
	server := httptest.NewUnstartedServer(handler(wheels))
	_ = server.Listener.Close()
	server.Listener = counting{ln, &i.Hits}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return i
}

type counting struct {
	net.Listener
	hits *atomic.Int64
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.hits.Add(1)
	}
	return conn, err
}

func handler(wheels []Wheel) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != User || password != Password {
			w.Header().Set("WWW-Authenticate", `Basic realm="index"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		project, simple := strings.CutPrefix(r.URL.Path, "/simple/")
		found := false
		for _, wheel := range wheels {
			switch {
			case simple && strings.Trim(project, "/") == wheel.Name:
				sum := sha256.Sum256(wheel.Bytes())
				w.Header().Set("Content-Type", "text/html")
				_, _ = fmt.Fprintf(w, "<a href=\"/files/%s#sha256=%s\">%[1]s</a>\n", wheel.file(), hex.EncodeToString(sum[:]))
				found = true
			case r.URL.Path == "/files/"+wheel.file():
				_, _ = w.Write(wheel.Bytes())
				return
			}
		}
		if !found {
			http.NotFound(w, r)
		}
	})
}

// certify creates a self-signed certificate for an address.
func certify(t testing.TB, ip net.IP) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "waza test index"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{ip}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
