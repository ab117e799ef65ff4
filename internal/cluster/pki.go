package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// writeCertificates writes a CA certificate, and a server and an administrator certificate
// signed by it, as NAME.crt and NAME.key in dir.
func writeCertificates() error {
	root, rootKey, err := writeCertificate("ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: "cluster"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	if err != nil {
		return err
	}
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "server"},
		IPAddresses: []net.IP{net.ParseIP(serviceAddress)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, m := range machines {
		server.DNSNames = append(server.DNSNames, m.name)
		server.IPAddresses = append(server.IPAddresses, net.ParseIP(m.address))
	}
	if _, _, err := writeCertificate("server", server, root, rootKey); err != nil {
		return err
	}
	_, _, err = writeCertificate("admin", &x509.Certificate{
		Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, root, rootKey)
	return err
}

// writeCertificate writes a certificate signed with the parent's key, or self-signed
// without a parent.
func writeCertificate(name string, c, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, parentKey = c, key
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore = time.Now().Add(-time.Hour)
	c.NotAfter = time.Now().Add(30 * 24 * time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := writePEM(dir+"/"+name+".crt", "CERTIFICATE", der); err != nil {
		return nil, nil, err
	}
	return c, key, writePEM(dir+"/"+name+".key", "EC PRIVATE KEY", keyDER)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// writeKubeconfig writes the administrator's kubeconfig, with embedded credentials.
func writeKubeconfig() error {
	c := api.NewConfig()
	c.Clusters["test"] = &api.Cluster{Server: server, CertificateAuthority: dir + "/ca.crt"}
	c.AuthInfos["admin"] = &api.AuthInfo{ClientCertificate: dir + "/admin.crt", ClientKey: dir + "/admin.key"}
	c.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "admin"}
	c.CurrentContext = "test"
	if err := api.FlattenConfig(c); err != nil {
		return err
	}
	return clientcmd.WriteToFile(*c, kubeconfig)
}
