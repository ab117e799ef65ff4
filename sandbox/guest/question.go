package guest

import (
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// Question is a DNS question that a program in the container asked.
type Question struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Answered bool   `json:"answered"` // false: NXDOMAIN
}

// What a question may be. A name has 255 bytes at the most; RFC 1035, section 2.3.4.
const (
	maxQuestionName = 255
	maxQuestionType = 32
)

// hearQuestions calls told for each question that a guest tells of, until l or done
// ends. A guest that tells of them faster than an honest one does is heard at the
// honest one's rate.
func hearQuestions(l *link, done <-chan struct{}, told func(Question)) {
	pace := questionPace()
	for {
		k, p, err := l.message()
		if err != nil || k != kindData {
			return
		}
		var q Question
		if json.Unmarshal(p, &q) != nil {
			continue
		}
		if len(q.Name) > maxQuestionName || len(q.Type) > maxQuestionType {
			_ = l.breach(fmt.Errorf("%w: a question of %d bytes", ErrProtocol, len(p)))
			return
		}
		if !await(pace, done) {
			return
		}
		told(q)
	}
}

// questionRate is how many questions are told to the runner, and answered, a second.
const questionRate = 50

func questionPace() *rate.Limiter { return rate.NewLimiter(questionRate, questionRate) }

// await takes a turn, and is false where done ends before that comes.
func await(pace *rate.Limiter, done <-chan struct{}) bool {
	turn := time.NewTimer(pace.Reserve().Delay())
	defer turn.Stop()
	select {
	case <-turn.C:
		return true
	case <-done:
		return false
	}
}
