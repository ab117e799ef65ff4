package report

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// funcs are what templates call.
var funcs = template.FuncMap{
	"line":     text.Visible,      // a stranger's text of one line
	"lines":    text.VisibleLines, // and of several
	"count":    count[int],
	"count64":  count[int64],
	"bytes":    byteCount,
	"ms":       milliseconds,
	"took":     took,
	"percent":  percent,
	"when":     when,
	"toMinute": toMinute,
	"outcome":  outcomeOf,
	"dict":     dict,
	"bar":      barOf,
	"between":  between,
	"within":   within,
	"several":  several,
	"score":    score,
	"dollars":  results.Dollars,
	"msf":      fractionalMilliseconds,
	"seconds":  func(s float64) string { return strconv.FormatFloat(s, 'f', 2, 64) + " s" },
	"attack":   attackMark,
	"ending":   attackEnd,
	"attacked": attackedMark,
	"labels":   results.LabelTexts,
	"change":   changeMark,
	"finding":  findingMark,
	"whisker":  shareWhisker,
}

// count is a number with its thousands apart.
func count[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// byteCount is a size for a person, of three digits.
func byteCount(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	size, units := float64(n), "KMGTPE"
	i := -1
	for size >= unit && i < len(units)-1 {
		size /= unit
		i++
	}
	return figure(size) + " " + units[i:i+1] + "iB"
}

// figure is a number of three digits or so.
func figure(f float64) string {
	switch {
	case f >= 99.95:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case f >= 9.995:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

func milliseconds(ms int64) string { return took(time.Duration(ms) * time.Millisecond) }

func fractionalMilliseconds(ms float64) string {
	return took(time.Duration(ms * float64(time.Millisecond)))
}

// score is a number from 0 to 1.
func score(s float64) string { return strconv.FormatFloat(s, 'f', 2, 64) }

// took is a time for a person.
func took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return figure(float64(d)/float64(time.Millisecond)) + " ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// percent is a share from 0 to 1.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + "%" }

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// toMinute is a time without its seconds, in UTC.
func toMinute(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// Mark says how something ended: by a sign, a word and a colour.
type Mark struct {
	Sign string // id of the symbol
	Word string
	Kind string // of the colour: pass, fail, warn, infra
}

// outcomeOf marks a trial's outcome, or a call's, or a verdict.
func outcomeOf(outcome any) Mark {
	word := fmt.Sprint(outcome)
	switch word {
	case string(evidence.ClassPass), string(evidence.OutcomeOK), "passed":
		return Mark{"pass", word, "pass"}
	case string(evidence.ClassFail), string(evidence.OutcomeToolError), "failed":
		return Mark{"fail", word, "fail"}
	case string(evidence.ClassTimeout):
		return Mark{"timeout", word, "warn"}
	case string(evidence.ClassAgentError), string(evidence.ClassServerError), string(evidence.OutcomeProtocolError), string(evidence.OutcomeTransportError):
		return Mark{"broke", word, "fail"}
	case string(evidence.OutcomeCancelled), string(evidence.OutcomeAbandoned):
		return Mark{"none", word, "infra"}
	case string(evidence.ClassInfra):
		return Mark{"infra", word, "infra"}
	}
	return Mark{"error", word, "warn"}
}

// dict is a map of pairs, for templates that take several values.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: a key without a value")
	}
	all := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		all[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return all, nil
}
