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
	Answers   int64 // number of answers, at least 1
	MaxTokens int64 // per answer; 0 if the request has no maximum that its API knows
	// Unpriced is the first member whose cost does not show in counts of tokens, such as a tool that
	// the provider runs; "" if there is none.
	Unpriced string
}

// maxMembers is the maximum number of members that are read of an object.
const maxMembers = 1 << 10

// errNoObject is returned for a body that providers may read in different ways.
var errNoObject = errors.New("the body must be one JSON object in UTF-8")

// ReadAsking reads what a request asks a provider to spend. It does not depend on the size of other
// parts, which it does not read. It rejects a request that other parsers may read differently, and
// a request for a background answer, whose usage nobody would see.
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
	case Generate: // some of its members are in a nested object
		inConfig = []string{"maxoutputtokens"}
	}
	config, err := asked.read(body, maxima)
	if err == nil {
		_, err = asked.read(config, inConfig)
	}
	return asked, err
}

// read reads the members of an object that determine the cost of an answer: those that multiply it,
// and those in maxima, which limit it. Providers ignore the limits of other APIs. It returns the
// member generationConfig.
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

// plainKey returns the form of a key that the most lenient parser reads: Google's treats
// max_output_tokens and maxOutputTokens alike.
func plainKey(key string) string { return strings.ReplaceAll(jsontext.FoldKey(key), "_", "") }

// larger returns the larger of count and the count in value, which may be null.
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

// isUnpriced reports whether a member has its own price, or changes the price of tokens.
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

// isRunElsewhere reports whether the provider runs a tool, and so may charge for it. The agent runs
// functions, and some tools that models know by type.
func isRunElsewhere(tool []byte) bool {
	var typ []byte
	named, others := false, false
	seen := map[string]bool{}
	for name, value := range jsontext.Members(tool) {
		key := plainKey(name)
		if seen[key] || len(seen) == maxMembers {
			return true // parsers may read it differently
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
		return !named && others // functions of Anthropic, and of Google
	}
	name := jsontext.Text(typ)
	if slices.Contains([]string{"function", "custom", "namespace", "local_shell", "apply_patch"}, name) {
		return false
	}
	return !slices.ContainsFunc([]string{"bash_", "text_editor_", "computer", "memory_", "tool_search"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}
