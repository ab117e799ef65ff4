package redact

import "maps"

// Found is what was replaced somewhere.
type Found struct {
	Spans int
	// Secrets counts the spans by the names of the secrets in them; nil where none has
	// a name.
	Secrets map[string]int
	// Envelope says that one was in what tells a JSON-RPC message's meaning: its
	// id, its method, or the name of the tool it calls.
	Envelope bool
}

// Add takes in what was found elsewhere.
func (f *Found) Add(other Found) {
	f.Spans += other.Spans
	f.Envelope = f.Envelope || other.Envelope
	for name, spans := range other.Secrets {
		f.count(name, spans)
	}
}

func (f *Found) count(name string, spans int) {
	if f.Secrets == nil {
		f.Secrets = map[string]int{}
	}
	f.Secrets[name] += spans
}

// copied is f, which nobody adds to.
func (f Found) copied() Found {
	f.Secrets = maps.Clone(f.Secrets)
	return f
}
