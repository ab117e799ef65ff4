package guests

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// checkGrace is how long a check may take to exit after its timeout.
	checkGrace = 2 * time.Second
	// checkTail is how many bytes at the end of a check's output are kept.
	checkTail = 2 << 10
)

// Checked is the result of a service's check.
type Checked struct {
	process.Exit
	Output string
	Found  string // exit and output as a message
}

// Ready reports whether the service is ready.
func (c Checked) Ready() bool { return c.Signal == "" && c.Code == 0 }

// Check runs a service's check once. If ctx is done before the check has ended, Found says so.
func Check(ctx context.Context, g *guest.Guest, check process.Spec) (c Checked, err error) {
	p, err := g.Exec(ctx, check, false)
	if err != nil {
		return c, cmp.Or(ctx.Err(), err) // err may be a consequence of ctx
	}
	output := &bounded.Ends{Tail: checkTail}
	running := process.Communicate(p, nil, output, output)
	if !running.WaitOrKill(ctx, checkGrace) {
		c.Found = "its check did not end" + output.Suffix()
		return c, ctx.Err()
	}
	if c.Exit, err = running.Wait(); err != nil {
		return c, err
	}
	c.Output = output.String()
	c.Found = fmt.Sprintf("its check exited with code %d", c.Code)
	if c.Signal != "" {
		c.Found = "its check was ended by " + c.Signal
	}
	c.Found += output.Suffix()
	return c, nil
}
