package finding

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/waza-isolate/waza/internal/text"
)

// phrase is a pattern for folded text. At least one of words must occur in a text that
// matches; they are searched for first because that is faster.
type phrase struct {
	kind    Kind
	words   []string
	pattern *regexp.Regexp
}

var allPhrases = sync.OnceValue(func() (all []phrase) {
	for _, p := range []struct {
		kind    Kind
		words   string // separated by spaces
		pattern string
	}{
		{Overrides, "ignore disregard forget override bypass", `\b(ignore|disregard|forget|override|bypass)\b.{0,30}\b(previous|prior|above|earlier|preceding|other|system|existing|safety|all)\b.{0,20}\b(instructions?|prompts?|rules?|guidelines?|messages?|directions?|restrictions?|constraints?)`},
		{Overrides, "supersede precedence priority", `\b(supersedes?|takes? (precedence|priority) over|higher priority than)\b.{0,40}\b(instructions?|prompts?|rules?|tools?|requests?|user|system)`},
		{Secrecy, "user human anyone anybody", `\b(do not|don't|dont|never|must not|should not|shouldn't|avoid|without)\b.{0,20}\b(tell(ing)?|inform(ing)?|mention(ing)?|reveal(ing)?|notify(ing)?|alert(ing)?|disclos(e|ing)|show(ing)?|ask(ing)?|warn(ing)?|let(ting)?)\b.{0,30}\b(user|human|anyone|anybody)\b`},
		{Secrecy, "secret silently quietly hidden", `\b(keep (this|it|that) (a )?(secret|hidden)|silently (call|send|read|run|include|forward|copy|add)|quietly (call|send|read|run|include|forward|copy|add)|hide (this|it) from)`},
		{Secrecy, "mention reveal disclose tell", `\b(do not|don't|never)\b (mention|reveal|disclose|tell)\b.{0,20}\b(this|that|it|these|instructions?|step|file)\b`},
		{Orders, "before prior", `\b(before|prior to) (you )?(us(e|ing)|call(ing)?|invok(e|ing)|answer(ing)?|respond(ing)?|do(ing)? anything|any other)\b.{0,80}\b(must|first|read|call|run|execute|send|fetch|open|load|provide)\b`},
		{Orders, "always must", `\b(you|the (model|assistant|agent|llm|ai)) (must|have to|has to) (always |first |also |immediately )?(call|read|run|send|include|pass|invoke|execute|fetch|append|add|copy|provide|use this)\b`},
		{Orders, "always whenever every", `\b(always|whenever|every time|for every|on every|after every|after each)\b.{0,60}\b(call|invoke|run|use) (this|the) (tool|function)\b`},
		{Poses, "<", `</?\s*(important|system|secret|instructions?|critical|admin|developer|assistant|user_?(message|input)|tool_?result|hidden|override|priority|mandatory|directive)[^a-z>]{0,3}>`},
		{Poses, "<| [inst] <<sys>>", `<\|[a-z_]{2,30}\|>|\[/?inst\]|<</?sys>>`},
		{Poses, "system assistant developer", `(^|[\n.!?>] ?|#{1,6} ?)(system|assistant|developer)( message| prompt| note| instructions?)? ?:`},
		{Poses, "prompt now", `\b(your|the) system prompt\b|\byou are now\b|\bnew instructions? ?:`},
		{Files, "ssh id_rsa id_ed25519 id_ecdsa known_hosts authorized_keys", `(^|[^a-z0-9])\.ssh(/|\b)|\bid_(rsa|ed25519|ecdsa)\b|\bauthorized_keys\b|\bknown_hosts\b`},
		{Files, ".env .netrc .npmrc .pypirc .pgpass .aws .kube .gnupg .git-credentials credentials _history wallet.dat", `(^|[\s"'` + "`" + `(/~])\.(env(\.[a-z]+)?|netrc|npmrc|pypirc|pgpass|git-credentials|gnupg|aws|kube|docker/config\.json)($|[\s"'` + "`" + `),.;:/])|\b(bash|zsh)_history\b|\bwallet\.dat\b|aws/credentials`},
		{Files, "mcp.json claude_desktop_config /etc/passwd /etc/shadow .cursor .claude", `\bmcp\.json\b|\bclaude_desktop_config|/etc/(passwd|shadow)\b|~/\.(cursor|claude|codeium|gemini)\b`},
		{Sends, "http @", `\b(send|sends|post|upload|forward|transmit|exfiltrate|e-?mail|report|append|redirect|copy|bcc|cc|deliver)\b.{0,80}\b(to|at|into|with)\b.{0,20}(https?://|[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,63}\.[a-z])`},
		{Sends, "password credential token secret key history conversation content", `\b(pass|include|put|provide|send|add|place|insert|attach|set)\b.{0,60}\b(passwords?|credentials?|api[ _-]?keys?|access tokens?|auth tokens?|private keys?|secrets?|conversation|chat history|full prompt|system prompt|(file|its|their) contents?)\b.{0,60}\b(as|in|into|to|via)\b.{0,30}\b(parameters?|arguments?|fields?|sidenote|notes?|context|metadata|url)\b`},
		{Steers, "tool tools", `\b(instead of|rather than|in place of|do not use|don't use|never use|never call|do not call|stop using|must not be used|is (broken|deprecated|unsafe|compromised))\b.{0,40}\b(any |all |the )?other (tool|server|function)s?\b`},
		{Steers, "deprecated broken unsafe replaces trusted", `\b(other|all other|any other|these|those|the) (tools?|servers?|functions?)\b.{0,30}\b(are|is) (now )?(deprecated|broken|unsafe|disabled|compromised|untrusted|not trusted)`},
		{Comment, "<!-- [//]: [comment]:", `<!--|\[//\]: ?#|\[comment\]: ?<>`},
	} {
		all = append(all, phrase{p.kind, strings.Fields(p.words), regexp.MustCompile(`(?s)` + p.pattern)})
	}
	return all
})

// phrases finds passages that match a phrase.
func phrases(text string) (all []found) {
	f := fold(text)
	for _, p := range allPhrases() {
		if !slices.ContainsFunc(p.words, func(word string) bool { return strings.Contains(f.text, word) }) {
			continue
		}
		for _, at := range p.pattern.FindAllStringIndex(f.text, maxOfKind) {
			all = append(all, found{kind: p.kind, start: f.place(at[0]), end: f.place(at[1])})
		}
	}
	return all
}

// folded is a text in normalized form: lower case, single spaces, no invisible characters,
// and lookalikes replaced by Latin letters.
type folded struct {
	text   string
	places []int32 // for each byte, its offset in the original text
	length int     // of the original text
}

func fold(s string) folded {
	f := folded{places: make([]int32, 0, len(s)), length: len(s)}
	var b strings.Builder
	space := false
	for i, r := range s {
		switch {
		case text.Hidden(r):
			continue
		case unicode.IsSpace(r):
			if space {
				continue
			}
			r, space = ' ', true
		default:
			space = false
		}
		if like := latinFor[r]; like != 0 {
			r = like
		}
		switch r {
		case '’', 'ʼ', '‘':
			r = '\''
		}
		before := b.Len()
		b.WriteRune(unicode.ToLower(r))
		for range b.Len() - before {
			f.places = append(f.places, int32(i))
		}
	}
	f.text = b.String()
	return f
}

// place returns the offset in the original text of a byte of the folded text.
func (f folded) place(at int) int {
	if at >= len(f.places) {
		return f.length
	}
	return int(f.places[at])
}

var word = regexp.MustCompile(`[A-Za-z0-9]+(?:[_-]+[A-Za-z0-9]+)*`)

// named finds the names of other servers' tools.
func named(text string, others map[string]bool) (all []found) {
	if len(others) == 0 {
		return nil
	}
	for _, at := range word.FindAllStringIndex(text, -1) {
		if name := text[at[0]:at[1]]; others[name] && isName(name) {
			all = append(all, found{kind: Others, start: at[0], end: at[1]})
		}
	}
	return all
}

// isName reports whether a tool's name is unlikely to occur as an ordinary word.
func isName(name string) bool {
	return strings.ContainsAny(name, "_-0123456789") || name != strings.ToLower(name) && strings.ToUpper(name[:1]) != name[:1]
}
