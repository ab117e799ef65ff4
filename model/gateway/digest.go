package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// cleaner is a recorder that writes a text, or a document of JSON, as it keeps it.
type cleaner interface {
	Clean(w io.Writer, doc []byte) error
}

func writeWhole(w io.Writer, doc []byte) error {
	_, err := w.Write(doc)
	return err
}

// digest is that of a request as it is kept: one of anything else would tell whether a
// guess at what was left out is right.
func (g *Gateway) digest(method, path string, body []byte) string {
	var kept bytes.Buffer
	_ = g.clean(&kept, []byte(path)) // buffers and hashes take everything
	path = kept.String()
	if len(body) <= maxNormal {
		kept.Reset()
		_ = g.clean(&kept, body)
		return digest(method, path, kept.Bytes())
	}
	sum := sha256.New()
	_, _ = io.WriteString(sum, method+"\n"+path+"\n")
	_ = g.clean(sum, body)
	return hex.EncodeToString(sum.Sum(nil))
}
