package evidence

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

// A line may be longer than the buffer, up to a limit. A file without line breaks is not
// read into memory.
func TestReadLine(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 14, 15, 16, 17, 31, 32, 33, 98, 99} {
		for _, end := range []string{"\n", ""} {
			line := strings.Repeat("x", size) + end
			in := bufio.NewReaderSize(strings.NewReader(line), 16)
			if got, err := readLine(in, 100); string(got) != line || (err != nil) != (line == "") {
				t.Errorf("%q is read as %q, %v", line, got, err)
			}
			if got, err := readLine(in, 100); !errors.Is(err, io.EOF) {
				t.Errorf("behind %q is %q, %v", line, got, err)
			}
		}
	}
	endless := bufio.NewReaderSize(io.LimitReader(zeros{}, 1<<22), 16)
	if got, err := readLine(endless, 1<<20); got != nil || err == nil {
		t.Errorf("%d bytes of a line without end, %v", len(got), err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
