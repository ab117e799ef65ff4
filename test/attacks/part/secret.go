package part

// SecretEnv names the runner's environment variable with [Secret], and Token that of the
// only server that gets it.
const (
	SecretEnv = "ATTACKED_SECRET"
	Token     = "TOKEN"
)

// WrittenAsterisks is the attack by asterisks, and the file that has them. Unsaid is what its graders look for in
// their place.
const (
	WrittenAsterisks = "written-asterisks"
	Unsaid           = "what-was-asked-for"
)

// Secret returns the secret of one server of a run, by the run's nonce.
func Secret(run string) string { return "only-for-evil/" + run + `+"quoted" & <marked>` }
