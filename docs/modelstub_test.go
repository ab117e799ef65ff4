package docs_test

import (
	"regexp"
	"testing"

	"github.com/waza-isolate/waza/model/stub"
)

// modelScript is a block of YAML without a file's name.
var modelScript = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestModelScriptsAreRead reads the scripts that the page on them shows.
func TestModelScriptsAreRead(t *testing.T) {
	const document = "model-stub.md"
	found := modelScript.FindAllStringSubmatch(read(t, document), -1)
	if len(found) == 0 {
		t.Error("no scripts were found")
	}
	for _, match := range found {
		if _, err := stub.Parse(document, []byte(match[1])); err != nil {
			t.Errorf("%v\n%s", err, match[1])
		}
	}
}
