package main

import (
	"bytes"
	"net/url"

	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/files"
)

// systemCA is where Debian and its kin keep what they trust.
const systemCA = "/etc/ssl/certs/ca-certificates.crt"

// buildNetwork is what of this machine's settings a build needs to reach a
// registry. Those that hold a password are added to secrets.
func buildNetwork(lookup func(string) (string, bool), secrets *redact.Set) images.Network {
	n := images.Network{CA: certificates(lookup), Env: map[string]string{}, Proxy: map[string]string{}}
	pass := func(to map[string]string, from, as string) {
		value, _ := lookup(from)
		if value == "" {
			return
		}
		to[as] = value
		hidePassword(value, secrets)
	}
	for _, name := range []string{"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST"} {
		pass(n.Env, name, name)
	}
	// uv's own names of an index win, since the command is uv's; so does npm's
	// usual spelling.
	for _, name := range []string{"UV_INDEX_URL", "UV_DEFAULT_INDEX"} {
		pass(n.Env, name, "PIP_INDEX_URL")
	}
	for _, name := range []string{"NPM_CONFIG_REGISTRY", "npm_config_registry"} {
		pass(n.Env, name, "NPM_CONFIG_REGISTRY")
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"} {
		pass(n.Proxy, name, name)
	}
	return n
}

// hidePassword adds an address that says who is asking, and the password in it, to
// secrets. A name without a password is a token.
func hidePassword(address string, secrets *redact.Set) {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return
	}
	secrets.Add(address)
	password, ok := u.User.Password()
	if !ok {
		password = u.User.Username()
	}
	secrets.Add(password)
}

// maxCertificates is of one file; those of systems have a quarter of a MiB.
const maxCertificates = 8 << 20

// certificates is every file of certificates that the environment names, else the
// system's; nothing where none can be read.
func certificates(lookup func(string) (string, bool)) []byte {
	var all bytes.Buffer
	seen := map[string]bool{"": true}
	for _, name := range []string{"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "PIP_CERT"} {
		path, _ := lookup(name)
		if seen[path] {
			continue
		}
		seen[path] = true
		if content, err := files.Read(path, maxCertificates); err == nil {
			all.Write(content)
			all.WriteByte('\n')
		}
	}
	if all.Len() == 0 {
		content, err := files.Read(systemCA, maxCertificates)
		if err != nil {
			return nil
		}
		return content
	}
	return all.Bytes()
}
