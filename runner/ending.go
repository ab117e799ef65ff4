package runner

// EndedBy says who ended a box.
type EndedBy string

const (
	// EndedByItself is the doing of what runs in the box, or at least nobody else's
	// that anybody knows of.
	EndedByItself EndedBy = "itself"
	// EndedByBreach is the same: what came out of the box broke the rules.
	EndedByBreach EndedBy = "breach"
	// EndedFromOutside is somebody else's doing, by way of the engine.
	EndedFromOutside EndedBy = "outside"
	// EndedByEngine is that the engine or its host went away.
	EndedByEngine EndedBy = "engine"
)

// Ending is what became of a box. The zero Ending is that of a box that stands.
type Ending struct {
	By      EndedBy
	Message string // a sentence without its subject, which is the box
}

// foreign says whether those who run in the box are not to blame.
func (e Ending) foreign() bool { return e.By == EndedFromOutside || e.By == EndedByEngine }
