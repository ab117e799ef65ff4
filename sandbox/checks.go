package sandbox

// CheckStatus is the result of a check.
type CheckStatus string

const (
	CheckOK      CheckStatus = "ok"
	CheckWarning CheckStatus = "warning" // runs work, with restrictions
	CheckProblem CheckStatus = "problem" // runs would fail
)

// Check is one check of `waza doctor`, on what a backend needs.
type Check struct {
	Name    string      `json:"name"`
	Status  CheckStatus `json:"status"`
	Message string      `json:"says"`          // what was found
	Fix     string      `json:"fix,omitempty"` // how to fix it; empty if Status is CheckOK
}

// Checks are check results in the order in which they are printed.
type Checks []Check

// OK adds a check that passed.
func (c *Checks) OK(name, message string) { *c = append(*c, Check{name, CheckOK, message, ""}) }

// Warn adds a check with a warning.
func (c *Checks) Warn(name, message, fix string) {
	*c = append(*c, Check{name, CheckWarning, message, fix})
}

// Fail adds a check with a problem.
func (c *Checks) Fail(name, message, fix string) {
	*c = append(*c, Check{name, CheckProblem, message, fix})
}

// Worst returns the worst status.
func (c Checks) Worst() CheckStatus {
	worst := CheckOK
	for _, one := range c {
		if one.Status == CheckProblem || worst == CheckOK {
			worst = one.Status
		}
	}
	return worst
}
