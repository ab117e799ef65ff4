package evidence

// Observed is one line of observed.jsonl: what the programs of one box did beside
// answering, as its guest and the runner saw it. A guest is in its box's hands, so each
// line is the box's word where the runner did not see it itself.
type Observed struct {
	Box         string       `json:"box"` // "agent", a server's name, or SERVER/SERVICE
	Files       []FileChange `json:"files,omitempty"`
	Programs    []Program    `json:"programs,omitempty"`
	Connections []Connection `json:"connections,omitempty"`
	// More counts what was seen beyond what is listed, by the list's name.
	More map[string]int `json:"more,omitempty"`
	// Unseen says what could not be watched, and why, by the list's name. What is absent
	// here and has no entry did not happen as far as a guest can tell.
	Unseen map[string]string `json:"unseen,omitempty"`
}

// FileChange is a file of a box that is another at the trial's end than at its begin.
type FileChange struct {
	Path string `json:"path"`
	What string `json:"what"` // created, changed or removed
	Kind string `json:"kind,omitempty"`
	Size int64  `json:"size,omitempty"` // bytes at the end
}

// Program is a program that was started in a box, however often.
type Program struct {
	Path  string   `json:"path"`
	Args  []string `json:"args,omitempty"` // of the first time
	Count int      `json:"count"`
}

// Connection is where a program of a box tried to connect to by address. Of a box
// without a network that leads nowhere.
type Connection struct {
	Network string `json:"network"` // tcp, udp, unix, …
	Address string `json:"address"`
	Count   int    `json:"count"`
}

// Egress is the data of an event of kind egress: one connection that a box asked to have
// carried out of its sandbox.
type Egress struct {
	Name    string `json:"name"` // of the host that was asked for
	Port    int    `json:"port"`
	By      string `json:"by"` // tls, http or connect: what told the name
	Allowed bool   `json:"allowed"`
	Address string `json:"address,omitempty"` // that was dialled
	Why     string `json:"why,omitempty"`     // it was not carried, or ended early
	Out     int64  `json:"bytes_out"`
	In      int64  `json:"bytes_in"`
	MS      int64  `json:"ms"`
}
