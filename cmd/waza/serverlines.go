package main

import (
	"bytes"
	"io"
	"strings"

	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/text"
)

// lineWriter shows each line of what is written to it, redacted, after a prefix.
type lineWriter struct {
	out     io.Writer
	prefix  string
	secrets *redact.Set
	held    []byte
}

// maxLine is where a line without end is broken.
const maxLine = 4 << 10

func (w *lineWriter) Write(b []byte) (int, error) {
	w.held = append(w.held, b...)
	for {
		end := bytes.IndexByte(w.held, '\n')
		if end < 0 && len(w.held) < maxLine {
			return len(b), nil
		}
		if end < 0 {
			end = maxLine - 1
		}
		line := strings.ToValidUTF8(w.secrets.String(string(w.held[:end])), "\uFFFD")
		w.held = w.held[end+1:]
		if _, err := io.WriteString(w.out, w.prefix+text.Inert(line)+"\n"); err != nil {
			return 0, err
		}
	}
}
