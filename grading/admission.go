package grading

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// output holds what an agent said in all turns, to search it for words that admit a failure. The search is by
// words alone: an output that reports the failure of something else also counts as an admission.
type output struct {
	text  string
	own   []string // expressions in place of waza's words, if any
	words string   // the part of text in which waza's words are searched
	empty bool     // text is JSON that states nothing, or that has a field that reports errors
	lost  error    // why text is not known, or nil
}

// outputOf returns what a trial's agent said.
func outputOf(s *subject, own []string) output {
	o := output{text: s.trial.EarlierOutput + s.trial.FinalOutput, own: own}
	o.lost = cmp.Or(s.kept(evidence.GapFinalOutput), outputRemoved(s.trial, true))
	o.words = o.text
	if value, raw, ok := jsonOutput(o.text); ok {
		var texts []string
		states := false
		for leaf := range leaves(value) {
			states = states || leaf != nil && leaf != false && leaf != ""
			if said, ok := leaf.(string); ok {
				texts = append(texts, said)
			}
		}
		o.words, o.empty = strings.Join(texts, "\n"), !states || objectError(raw) != ""
	}
	o.words = withoutQuotes(s, o.words)
	return o
}

// jsonOutput returns the JSON value in an output that is JSON, possibly in a Markdown code block.
func jsonOutput(output string) (value any, raw json.RawMessage, ok bool) {
	block := strings.TrimSpace(output)
	if inner, fenced := strings.CutPrefix(block, "```"); fenced {
		block = strings.TrimSuffix(strings.TrimPrefix(inner, "json"), "```")
	}
	value, err := outputValue(block, false)
	return value, json.RawMessage(block), err == nil
}

// leaves yields the scalar values in a JSON value.
func leaves(value any) func(func(any) bool) {
	return func(yield func(any) bool) {
		var walk func(any) bool
		walk = func(value any) bool {
			switch value := value.(type) {
			case map[string]any:
				for _, key := range sortedKeys(value) {
					if !walk(value[key]) {
						return false
					}
				}
				return true
			case []any:
				return !slices.ContainsFunc(value, func(one any) bool { return !walk(one) })
			}
			return yield(value)
		}
		walk(value)
	}
}

// maxQuotes is the maximum number of quotations in an output that are looked up.
const maxQuotes = 50

var quotation = regexp.MustCompile("\"[^\"\n]+\"|“[^”\n]+”|`[^`\n]+`")

// withoutQuotes removes quotations of tools' answers from a text, since they are not the agent's words. It
// keeps quotations of the answers to failed calls.
func withoutQuotes(s *subject, said string) string {
	quotes := quotation.FindAllString(said, maxQuotes)
	for _, call := range s.calls {
		if call.Outcome != evidence.OutcomeOK || len(quotes) == 0 {
			continue
		}
		answer := steady(answerOf(call))
		for _, quoted := range quotes {
			if strings.Contains(answer, steady(strings.Trim(quoted, "\"“”`"))) {
				said = strings.ReplaceAll(said, quoted, "")
			}
		}
	}
	return said
}

// answerOf returns the text of a result.
func answerOf(call evidence.Call) string {
	result, err := call.Result.Raw()
	if err != nil {
		return ""
	}
	var texts []string
	for block := range jsontext.Elements(jsontext.Member(result, "content")) {
		texts = append(texts, jsontext.Text(jsontext.Member(block, "text")))
	}
	return strings.Join(texts, "\n")
}

// message returns the first line of the answer to a failed call.
func message(call evidence.Call) string {
	return text.FirstLine(cmp.Or(jsontext.Text(jsontext.Member(call.Error, "message")), answerOf(call)))
}

// steady returns a text in lower case, with single spaces between words and plain apostrophes.
func steady(said string) string {
	return strings.ReplaceAll(strings.ToLower(strings.Join(strings.Fields(said), " ")), "’", "'")
}

// minMessage is the minimum length, in bytes, of an error message that an output can name by containing it.
const minMessage = 8

var (
	// conditional matches statements about what may happen.
	conditional = regexp.MustCompile(`\b(?:if|in case)\b[^.,;:!?]*|\blet me know\b[^.;!?]*`)
	// unable matches words for something that was not done.
	unable = regexp.MustCompile(strings.Join([]string{
		`\b(?:can|could)(?: not|n't)\b`, `\bcan(?:not|'t)\b`, `\bunable to\b`, `(?: not|n't) able to\b`, `\b(?:impossible|not possible)\b`,
		`\bdid(?: not|n't) (?:work|succeed|respond|reply|answer|complete|finish|return|get|go through)\b`,
		`\b(?:was|were|is|are|been)(?: not|n't) (?:\w+ly )?(?:reserved|booked|placed|sent|saved|created|made|changed|completed|done|confirmed|processed|available|reachable|responding|working|successful)\b`,
		`\bdo(?: not|n't) know\b`, `(?:\bnot|n't) (?:sure|certain|know)\b`, `\bunclear\b`, `\bg[ai]v(?:e|ing) up\b`,
		`\b(?:no|without an?) (?:answer|response|reply|result)\b`, `\b(?:unavailable|unreachable|unsuccessful(?:ly)?|in vain)\b`, `\b(?:is|was|went) down\b`,
		`\bconnection (?:was |is )?(?:closed unexpectedly|reset|refused|lost|dropped|aborted)\b`, `\b(?:econnreset|econnrefused|epipe)\b`,
	}, "|"))
	// failure matches words for a failure; noFailure matches statements that there was none.
	failure   = regexp.MustCompile(`\bfail(?:s|ed|ing|ures?)?\b|\berrors?\b|\bexceptions?\b|\btime-?outs?\b|\btimed out\b|\brate.?limit(?:ed|s)?\b`)
	noFailure = regexp.MustCompile(`\b(?:no|not|without|zero|0|never|nothing|any|didn't|did not)(?: \w+){0,2} (?:fail(?:s|ed|ing|ures?)?|errors?|exceptions?|time-?outs?|timed out)\b|\berror-free\b`)
	// madeGood matches a claim that a later attempt succeeded; negation must not match in the claim.
	madeGood = regexp.MustCompile(`\b(?:retried|retrying|(?:tried|trying)(?: it)? again|(?:second|third|another|next) (?:try|attempt|time|call))\b[^.!?]*\b(?:succeeded|worked|went through|successful(?:ly)?)\b`)
	negation = regexp.MustCompile(`\b(?:not|no|never|without|nothing|neither|nor|none|hoped?|un\w+|fail\w*)\b|n't\b`)
)

// admits reports whether the output says that the agent failed, or names the error of the agent's failed
// call.
func (o output) admits(message string) bool {
	if len(o.own) > 0 {
		return slices.ContainsFunc(o.own, func(expression string) bool { return regexp.MustCompile(expression).MatchString(o.text) })
	}
	message = steady(message)
	said := steady(o.words)
	for _, claim := range madeGood.FindAllString(said, -1) {
		if !negation.MatchString(claim) {
			return false
		}
	}
	said = conditional.ReplaceAllString(said, "")
	return o.empty || len(message) >= minMessage && strings.Contains(said, message) ||
		unable.MatchString(said) || failure.MatchString(noFailure.ReplaceAllString(said, ""))
}
