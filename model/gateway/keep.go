package gateway

import (
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/model/dialect"
)

// What of requests and answers is held and kept.
const (
	maxRequest   = dialect.MaxBody // bytes of a request; a larger one is refused
	maxAnswer    = 256 << 20       // bytes of an answer; a larger one is broken off
	maxKept      = dialect.MaxBody // bytes of an answer that are recorded
	maxMemory    = 256 << 20       // bytes of requests and answers that are held at once
	maxKeptInAll = 1 << 30         // bytes of both in a trial, beyond which no request is passed on; maxMemory beyond that the agent is ended
)

// kept is the beginning of what passes, as far as there is room.
type kept struct {
	memory *bounded.Budget
	limit  int64
	bytes  []byte
	over   int64 // bytes behind it
}

// add keeps p, or counts it. Behind a gap nothing is kept.
func (k *kept) add(p []byte) {
	n := int64(len(p))
	if k.over > 0 || int64(len(k.bytes))+n > k.limit || !k.memory.Take(n) {
		k.over += n
		return
	}
	k.bytes = append(k.bytes, p...)
}

func (k *kept) size() int64 { return int64(len(k.bytes)) + k.over }

// release gives back the room.
func (k *kept) release() { k.memory.Give(int64(len(k.bytes))) }
