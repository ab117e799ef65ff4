package attacks

// Defence is a defense that stops attacks, with the way to remove it.
type Defence struct {
	Name string // short description, unique
	// Constants are the constants of package defence that are set to false to remove it.
	// Two defenses may share one.
	Constants []string
	// Build names the executable without this defense. Defenses share a build if the
	// attacks that they stop do not interfere.
	Build string
	// Kept says why it is not removed. Constants and Build are empty then, and
	// docs/attacks.md lists the reason.
	Kept string
}

// Builds of the executable, by the defenses that they lack.
const (
	openBuild  = "open"  // networks, names, filter
	rootBuild  = "root"  // privileges, read-only files
	guestBuild = "guest" // process 1, and the end of containers
	leakyBuild = "leaky" // egress, secrets, and records of an agent's traffic
	wireBuild  = "wire"  // processing of MCP messages
	laxBuild   = "lax"   // limits
)

// without returns a defense that is removed by setting constants to false.
func without(build, name string, constants ...string) Defence {
	return Defence{Name: name, Build: build, Constants: constants}
}

// kept returns a defense that is not removed.
func kept(name, why string) Defence { return Defence{Name: name, Kept: why} }
