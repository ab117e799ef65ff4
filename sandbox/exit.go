package sandbox

// Cause is who ended a container.
type Cause string

const (
	// ByItself is what runs in the container, or at least nobody else that anybody knows
	// of.
	ByItself Cause = "itself"
	// ByBreach is the same: what came out of the container broke the rules.
	ByBreach Cause = "breach"
	// FromOutside is somebody else, by way of the engine.
	FromOutside Cause = "outside"
	// ByEngine is that the engine or its host went away.
	ByEngine Cause = "engine"
)

// Exit is how a container ended. It is zero while the container runs.
type Exit struct {
	Cause   Cause
	Message string // a sentence without its subject, which is the container
}

// Foreign reports whether those who run in the container are not to blame.
func (e Exit) Foreign() bool { return e.Cause == FromOutside || e.Cause == ByEngine }
