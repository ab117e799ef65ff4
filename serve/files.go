package serve

import (
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/waza-isolate/waza/internal/defence"
)

// maxShown is how many bytes of a file a browser is given to show; it saves what is longer.
const maxShown = 8 << 20

// file serves a file of a run as its bytes are. Whatever they are, a browser takes them
// for text, or saves them: they are never a page.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	p, err := openPlace(s.shelf.dir, r.PathValue("id"))
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	defer func() { _ = p.Close() }()
	name := r.PathValue("path")
	file, info, err := p.open(name)
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	defer func() { _ = file.Close() }()
	h := w.Header()
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if !defence.FilesAsText {
		h.Set("Content-Type", "text/html; charset=utf-8")
	}
	if info.Size() > maxShown || strings.HasSuffix(name, ".tar") {
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	}
	http.ServeContent(w, r, "", time.Time{}, file)
}
