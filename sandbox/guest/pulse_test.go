package guest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// mute is a peer that leaves the pings from one until another without an answer.
type mute struct {
	pings, from, until int
	over               chan struct{}
}

func (m *mute) CloseChan() <-chan struct{} { return m.over }

func (m *mute) Ping() (time.Duration, error) {
	m.pings++
	if m.pings >= m.from && m.pings < m.until {
		time.Sleep(10 * time.Second)
		return 0, errors.New("no answer")
	}
	return 0, nil
}

// A machine that stands still for a while ends no session, and one that does not come
// back does.
func TestPulse(t *testing.T) {
	for _, test := range []struct {
		name        string
		from, until int
		lost        bool
	}{
		{"all answered", 0, 0, false},
		{"one not", 3, 4, false},
		{"two not", 3, 5, true},
		{"none", 0, 1 << 30, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &mute{from: test.from, until: test.until, over: make(chan struct{})}
				lost, done := false, make(chan struct{})
				go func() {
					defer close(done)
					watchPulse(p, func() {}, func(error) { lost = true })
				}()
				time.Sleep(time.Minute)
				close(p.over)
				<-done
				if lost != test.lost {
					t.Errorf("after %d pings it is lost: %v", p.pings, lost)
				}
			})
		})
	}
}

// A session that stood still is known as such for a while, also before it goes on.
func TestStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pulse{last: time.Now()}
		for _, step := range []struct {
			silent        time.Duration // before the next answer
			before, after bool          // it stood still, when asked before and after that answer
		}{
			{stillTime, false, false},
			{stillTime + time.Second, true, true},
			{stillTime, true, true},
			{stillTime, true, true},
			{remembered - 2*stillTime, false, false},
		} {
			time.Sleep(step.silent)
			before := p.stoodStill()
			p.beat()
			if after := p.stoodStill(); before != step.before || after != step.after {
				t.Errorf("an answer after %v: %v before, %v after", step.silent, before, after)
			}
		}
	})
}
