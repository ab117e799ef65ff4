package hostileguest

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"time"

	"github.com/waza-isolate/waza/test/attacks/part"
)

// floods returns functions that create the i-th frame of an attack.
func floods() map[string]func(i uint32) frame {
	return map[string]func(uint32) frame{
		part.MuxStreams:   func(i uint32) frame { return newFrame(frameWindowUpdate, flagSYN, 2*i+1000, 0) },
		part.MuxPings:     func(i uint32) frame { return newFrame(framePing, flagSYN, 0, i) },
		part.MuxEmpty:     func(uint32) frame { return newFrame(frameData, 0, 1_000_000, 0) },
		part.MuxOversized: func(uint32) frame { return newFrame(frameData, 0, 1_000_000, 1<<30) },
		part.MuxGarbage:   func(uint32) frame { return frame("GET / HTTP/1") },
	}
}

// flood writes frames of an attack for at most two seconds.
func (m *middle) flood(attack string) {
	next := floods()[attack]
	if next == nil {
		return
	}
	for i, until := uint32(0), time.Now().Add(2*time.Second); i < 100_000 && time.Now().Before(until); i++ {
		m.mu.Lock()
		_, err := m.out.Write(next(i))
		m.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// plantedMessage returns the planted files as a message of a stream.
func plantedMessage() []byte {
	files := planted()
	return append(binary.BigEndian.AppendUint32([]byte{kindData}, uint32(len(files))), files...)
}

// planted returns files with paths outside the workspace as a tar without its end.
func planted() []byte {
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	for _, name := range []string{"../home/agent/" + part.Planted, "/tmp/" + part.Planted, "way", "way/" + part.Planted} {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}
		if name == "way" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, "/tmp"
		}
		_ = out.WriteHeader(header) // into memory
	}
	return b.Bytes()
}
