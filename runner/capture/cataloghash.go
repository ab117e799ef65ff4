package capture

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/runner/evidence"
)

// CatalogHash is the SHA-256 of what tools say of themselves: names, descriptions,
// input schemas and annotations, in whatever order tools and keys come. Equal JSON
// (see [Equal]) counts as equal; what is not JSON counts by its bytes.
func CatalogHash(tools []Tool) string {
	sorted := slices.SortedFunc(slices.Values(tools), func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	sum := sha256.New()
	out := json.NewEncoder(sum)
	for _, t := range sorted {
		said := []string{t.Name, t.Description, form(t.InputSchema), form(t.Annotations)}
		_ = out.Encode(said) // a hash takes everything, and strings are always JSON
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func form(raw json.RawMessage) string {
	if canonical, ok := canonical(raw); ok {
		return canonical
	}
	return string(raw)
}

// Catalogs says in short what every server listed, by name.
func (r Result) Catalogs() []evidence.Catalog {
	catalogs := []evidence.Catalog{}
	for _, server := range slices.Sorted(maps.Keys(r.Catalog)) {
		tools := r.Catalog[server]
		c := evidence.Catalog{Server: server, SHA256: CatalogHash(tools)}
		for _, t := range tools {
			if t.Hidden {
				c.Hidden++
				continue
			}
			c.Tools++
			c.Bytes += definitionBytes(t)
		}
		catalogs = append(catalogs, c)
	}
	return catalogs
}

// definitionBytes is how long a tool is as a model is shown it: name, description and
// input schema as JSON, without space between.
func definitionBytes(t Tool) int {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(struct { // JSON, as it was decoded from JSON
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	}{t.Name, t.Description, t.InputSchema})
	return out.Len() - len("\n")
}
