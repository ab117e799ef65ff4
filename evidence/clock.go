package evidence

import "time"

// Clock gives the times of one trial or run: what the machine's clock said at its
// start, and what has passed since. So times are in order and the difference of two
// is what passed between them, whatever is done to the machine's clock meanwhile.
type Clock struct {
	start time.Time
	began time.Time // the start too, as the monotonic clock has it
}

// StartClock starts a clock at wall, which is what the machine's clock says.
func StartClock(wall time.Time) *Clock {
	return &Clock{start: wall.UTC(), began: time.Now()}
}

// Now is the time by the clock, in UTC.
func (c *Clock) Now() time.Time { return c.start.Add(time.Since(c.began)) }
