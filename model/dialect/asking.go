package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Asking is what a request for a model's turn asks a provider to spend.
type Asking struct {
	Answers   int64 // how many answers, at least 1
	MaxTokens int64 // of each answer; 0 if the request names no maximum that its dialect knows
	// Unpriced is the first member whose cost no count of tokens shows, such as a tool that the
	// provider runs; empty if there is none.
	Unpriced string
}

// maxMembers is how many members an object may have that is read here.
const maxMembers = 1 << 10

// errNoObject is returned for a body that providers may read in different ways.
var errNoObject = errors.New("the body must be one JSON object in UTF-8")

// ReadAsking reads what a request asks a provider to spend. It reads no other part, so that no
// size of the request keeps it from that. It refuses a request that another reader may read
// differently, and one for an answer that comes when nobody is there to see what it took.
func ReadAsking(of Name, body []byte) (Asking, error) {
	asked := Asking{Answers: 1}
	if !utf8.Valid(body) || !jsontext.Valid(body) || jsontext.TrimSpace(body)[0] != '{' {
		return asked, errNoObject
	}
	var maxima, inConfig []string
	switch of {
	case Chat:
		maxima = []string{"maxtokens", "maxcompletiontokens"}
	case Responses:
		maxima = []string{"maxoutputtokens"}
	case Messages:
		maxima = []string{"maxtokens"}
	case Generate: // it has some members in an object of their own
		inConfig = []string{"maxoutputtokens"}
	}
	config, err := asked.read(body, maxima)
	if err == nil {
		_, err = asked.read(config, inConfig)
	}
	return asked, err
}

// read reads the members of an object that multiply what an answer takes, and those called maxima,
// which limit it: a provider ignores the maximum of another API. It returns the member
// generationConfig.
func (a *Asking) read(object []byte, maxima []string) (config []byte, err error) {
	seen := map[string]string{}
	for name, value := range jsontext.Members(object) {
		key := plainKey(name)
		if earlier, twice := seen[key]; twice {
			return nil, fmt.Errorf("the members %q and %q are the same to some providers; leave one out", earlier, name)
		}
		if seen[key] = name; len(seen) > maxMembers {
			return nil, fmt.Errorf("the body has more than %d members", maxMembers)
		}
		switch {
		case slices.Contains(maxima, key):
			a.MaxTokens, err = larger(a.MaxTokens, value)
		case key == "n" || key == "bestof" || key == "candidatecount":
			a.Answers, err = larger(a.Answers, value)
		case key == "generationconfig":
			config = value
		case key == "background" || key == "deferred":
			if word := string(value); word != "false" && word != "null" {
				return nil, fmt.Errorf("%s asks for an answer that comes later, whose tokens nobody would count; leave it out", name)
			}
		default:
			if a.Unpriced == "" && isUnpriced(key, value) {
				a.Unpriced = name
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s %w", name, err)
		}
	}
	return config, nil
}

// plainKey returns a key as the most lenient reader has it: Google's reads max_output_tokens and
// maxOutputTokens alike.
func plainKey(key string) string { return strings.ReplaceAll(jsontext.FoldKey(key), "_", "") }

// larger returns the larger of a count and one that a request names; null names none.
func larger(count int64, value []byte) (int64, error) {
	if string(value) == "null" {
		return count, nil
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < 0 {
		return count, errors.New("must be a whole number")
	}
	return max(count, n), nil
}

// isUnpriced reports whether a member has a price of its own, or changes that of tokens.
func isUnpriced(key string, value []byte) bool {
	word := string(value)
	isPlain := func(plain ...string) bool { return word == "null" || slices.Contains(plain, jsontext.Text(value)) }
	switch key {
	case "tools":
		for tool := range jsontext.Elements(value) {
			if isRunElsewhere(tool) {
				return true
			}
		}
		return word != "null" && word[0] != '['
	case "servicetier":
		return !isPlain("auto", "default", "standard", "standard_only", "flex")
	case "speed":
		return !isPlain("standard")
	case "inferencegeo":
		return !isPlain("global")
	case "modalities", "responsemodalities":
		for modality := range jsontext.Elements(value) {
			if !strings.EqualFold(jsontext.Text(modality), "text") {
				return true
			}
		}
		return word != "null" && word[0] != '['
	case "enablesearch", "websearch":
		return word != "null" && word != "false"
	case "audio", "compoundcustom", "container", "datasources", "extrabody", "fallbackmodels", "fallbacks", "mcpservers", "models", "plugins", "preset",
		"provider", "route", "searchparameters", "searchsettings", "speechconfig", "websearchoptions":
		return word != "null"
	}
	return false
}

// isRunElsewhere reports whether the provider runs a tool, which it may charge for. The agent runs
// functions, and some tools that models know by their types.
func isRunElsewhere(tool []byte) bool {
	var typ []byte
	named, others := false, false
	seen := map[string]bool{}
	for name, value := range jsontext.Members(tool) {
		key := plainKey(name)
		if seen[key] || len(seen) == maxMembers {
			return true // readers may differ
		}
		seen[key] = true
		switch key {
		case "type":
			typ = value
		case "name":
			named = true
		case "functiondeclarations":
		default:
			others = true
		}
	}
	if typ == nil {
		return !named && others // of Anthropic's functions, and of Google's
	}
	name := jsontext.Text(typ)
	if slices.Contains([]string{"function", "custom", "namespace", "local_shell", "apply_patch"}, name) {
		return false
	}
	return !slices.ContainsFunc([]string{"bash_", "text_editor_", "computer", "memory_", "tool_search"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}
