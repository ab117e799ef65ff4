package main

import (
	"crypto/x509"
	"net"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

// writeCertificates writes a CA certificate, and a server and an administrator certificate
// signed by it, as NAME.crt and NAME.key in dir.
func writeCertificates() error {
	with := func(c cert.Config) *pkiutil.CertConfig {
		return &pkiutil.CertConfig{Config: c, NotAfter: time.Now().Add(30 * 24 * time.Hour), EncryptionAlgorithm: "ECDSA-P256"}
	}
	ca, caKey, err := pkiutil.NewCertificateAuthority(with(cert.Config{CommonName: "cluster"}))
	if err == nil {
		err = pkiutil.WriteCertAndKey(dir, "ca", ca, caKey)
	}
	if err != nil {
		return err
	}
	names := cert.AltNames{IPs: []net.IP{net.ParseIP(serviceAddress)}}
	for _, m := range machines {
		names.DNSNames = append(names.DNSNames, m.name)
		names.IPs = append(names.IPs, net.ParseIP(m.address))
	}
	for _, c := range []cert.Config{
		{CommonName: "server", AltNames: names, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		{CommonName: "admin", Organization: []string{"system:masters"}, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	} {
		signed, key, err := pkiutil.NewCertAndKey(ca, caKey, with(c))
		if err == nil {
			err = pkiutil.WriteCertAndKey(dir, c.CommonName, signed, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
