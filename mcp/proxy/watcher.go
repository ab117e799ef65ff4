package proxy

// Watcher is what a [Recorder] can be beside: it hears of calls of tools while they are
// under way. It must return at once, for the agent waits.
type Watcher interface {
	// Called hears that the agent calls a tool; what it returns is called when the agent
	// has the answer, or gave up waiting for it.
	Called(server, tool string) (over func())
}

// watch has the recorder hear of the calls in a message of the agent's.
func (s *server) watch(c call) (over func()) {
	watcher, ok := s.proxy.rec.(Watcher)
	if !ok {
		return func() {}
	}
	var under []func()
	for _, m := range c.env.of(request) {
		if m.method == methodCallTool {
			under = append(under, watcher.Called(s.Name, m.name))
		}
	}
	return func() {
		for _, over := range under {
			over()
		}
	}
}
