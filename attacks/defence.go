package attacks

// Defence is what holds attacks, and how it is taken out.
type Defence struct {
	Name string // in a few words, unique
	// Constants are those of package defence that are false without it. Two defences may
	// share one.
	Constants []string
	// Build names the executable that it is taken out of. Defences share one where no
	// attack that one of them holds gets in the way of another's.
	Build string
	// Kept says why it cannot be taken out. It has no Constants and no Build then, and
	// SECURITY.md says so.
	Kept string
}

// Executables that lack defences.
const (
	openBuild  = "open"  // networks, names, filter
	rootBuild  = "root"  // privileges and read-only files
	guestBuild = "guest" // what process 1 does for itself, and what ends containers
	leakyBuild = "leaky" // egress, secrets, and what an agent sends on record
	wireBuild  = "wire"  // what is made of messages
	laxBuild   = "lax"   // limits, and what makes texts harmless
)

// without returns a defence that goes with constants.
func without(build, name string, constants ...string) Defence {
	return Defence{Name: name, Build: build, Constants: constants}
}

// kept returns a defence that cannot be taken out.
func kept(name, why string) Defence { return Defence{Name: name, Kept: why} }
