package evidence

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLastWords is how many bytes of an output's end are looked at for its last line.
const maxLastWords = 2 << 10

// LastWords is the last line that the agent wrote to stderr, as far as it is within the
// last 2 KiB; empty where there is none.
func (d Dir) LastWords() string {
	file, err := os.OpenFile(filepath.Join(string(d), StderrFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	size, err := regularSize(file)
	if err != nil {
		return ""
	}
	from := max(0, size-maxLastWords)
	tail, err := io.ReadAll(io.NewSectionReader(file, from, size-from))
	if err != nil {
		return ""
	}
	tail = bytes.TrimSpace(tail)
	line := tail[bytes.LastIndexAny(tail, "\r\n")+1:]
	return strings.TrimSpace(strings.ToValidUTF8(string(line), ""))
}
