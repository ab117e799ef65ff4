// Package checkup holds the checks of `waza doctor`, their results and what to do about
// them. It looks at nothing itself.
package checkup

// Status is how a check went.
type Status string

const (
	OK      Status = "ok"
	Warning Status = "warning" // runs work, with less than they might have
	Problem Status = "problem" // a run would not work
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Says   string `json:"says"`           // what was found
	Mend   string `json:"mend,omitempty"` // one sentence that says what to do; only where the status is not OK
}

// Checks are what one look found, in the order in which a person reads them.
type Checks []Check

// OK adds a check that went well.
func (c *Checks) OK(name, says string) { *c = append(*c, Check{name, OK, says, ""}) }

// Warn adds a check of which a run has less than it might.
func (c *Checks) Warn(name, says, mend string) { *c = append(*c, Check{name, Warning, says, mend}) }

// Fail adds a check for which a run would not work.
func (c *Checks) Fail(name, says, mend string) { *c = append(*c, Check{name, Problem, says, mend}) }

// Worst is the worst status of all.
func (c Checks) Worst() Status {
	worst := OK
	for _, one := range c {
		if one.Status == Problem || worst == OK {
			worst = one.Status
		}
	}
	return worst
}
