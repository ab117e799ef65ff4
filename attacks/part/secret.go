package part

// SecretEnv names the variable of the runner's that has [Secret], and Token that of the
// one server that it is for.
const (
	SecretEnv = "ATTACKED_SECRET"
	Token     = "TOKEN"
)

// Secret returns what only one server of a run may know, by the run's nonce.
func Secret(run string) string { return "only-for-evil/" + run + `+"quoted" & <marked>` }
