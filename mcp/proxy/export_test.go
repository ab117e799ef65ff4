package proxy

import "slices"

// What tests from outside see of a proxy.
var (
	ErrCut    = errNoAnswer
	ErrStatus = errStatus
)

const (
	RefusedKept = refusedKept
	MaxKept     = maxKept
)

// RemoteOnly lists the headers of remote servers that agents do not get.
func RemoteOnly() []string { return slices.Collect(slices.Values(remoteOnly())) }

// MemoryUsed and ReplayUsed return how many bytes a proxy holds.
func (p *Proxy) MemoryUsed() int64 { return int64(p.memory.Used()) }
func (p *Proxy) ReplayUsed() int64 { return int64(p.replay.Used()) }

// Kept returns how many requests are kept of those to a remote server that their agent left.
func (p *Proxy) Kept(server string) int {
	return p.servers[server].handler.(*passThrough).sessions.kept
}

// Leave sends requests to a remote server in a session, and leaves them.
func (p *Proxy) Leave(server, session string, raw []byte) error {
	hs := p.servers[server].handler.(*passThrough).sessions
	env, err := parse(raw)
	if err != nil {
		return err
	}
	s, waiting, err := hs.join(session, env)
	if err != nil {
		return err
	}
	hs.leave(s, waiting, true)
	return nil
}

// Unanswered returns the state that is kept for a request to a stdio server until the
// response.
func (p *Proxy) Unanswered(server string, raw []byte) (any, error) {
	env, err := parse(raw)
	return newExchange(&stdioSession{bridge: p.servers[server].handler.(*bridge)}, inbound{env: env}), err
}

// Listens reports whether the agent's own stream is open in a session on stdio.
func (p *Proxy) Listens(server, session string) bool {
	s := p.servers[server].handler.(*bridge).session(session)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own.holder != nil
}
